//! Reads the body of a request, up to a limit.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;

use super::BoxError;

/// How often the limit is taken and thrown away before a client that goes on sending is cut off.
const PATIENCE: usize = 16;

/// Why there is no body.
pub(crate) enum Unread {
    TooLarge,
    Broken(BoxError),
}

/// Returns the whole body.
///
/// What is too large is still taken and thrown away: whoever is busy sending is not listening yet, and would find the
/// connection cut instead of hearing why.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Unread>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let (mut parts, mut size) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Unread::Broken(error.into()))?;
        let Ok(mut data) = frame.into_data() else { continue };
        size = size.saturating_add(data.remaining());
        if size <= limit {
            parts.push(data.copy_to_bytes(data.remaining()));
        } else if size / PATIENCE > limit {
            break;
        }
    }
    match &*parts {
        _ if size > limit => Err(Unread::TooLarge),
        [only] => Ok(only.clone()),
        parts => Ok(parts
            .iter()
            .fold(BytesMut::with_capacity(size), |mut whole, part| {
                whole.extend_from_slice(part);
                whole
            })
            .freeze()),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// Sends as many frames of ten bytes and returns what was read and how many frames were taken.
    async fn sent(frames: usize, limit: usize) -> (Result<Bytes, Unread>, usize) {
        let taken = AtomicUsize::new(0);
        let frames = (0..frames).map(|_| {
            taken.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"0123456789")))
        });
        let read = read(StreamBody::new(futures::stream::iter(frames)), limit).await;
        (read, taken.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_body_is_read_whole_however_it_comes() {
        for frames in [0, 1, 3] {
            let (read, _) = sent(frames, 30).await;
            assert_eq!(read.ok(), Some("0123456789".repeat(frames).into()));
        }
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_taken_to_its_end_so_that_the_answer_is_heard() {
        let (read, taken) = sent(40, 30).await;
        assert!(matches!(read, Err(Unread::TooLarge)));
        assert_eq!(taken, 40);
    }

    #[tokio::test]
    async fn a_body_without_end_is_not_read_for_ever() {
        let (read, taken) = sent(10_000, 30).await;
        assert!(matches!(read, Err(Unread::TooLarge)));
        assert!(taken < 100, "{taken}");
    }
}
