//! How fast requests go to the API server: so many at once, so many a second after that.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// Requests that never wait: a leader that cannot renew its lease is no leader any more.
const LEASES: &str = "/apis/coordination.k8s.io/";

/// A bucket that holds `burst` requests and is filled again at `per_second`. Everything that goes through clients made with
/// one throttle is counted together.
#[derive(Clone, Debug)]
pub struct Throttle {
    bucket: Arc<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    per_second: f64,
    burst: f64,
    /// What is in it, and when that was so. Less than nothing is what waits.
    level: Mutex<(f64, Instant)>,
}

impl Throttle {
    /// A full bucket. Less than one request, or less than one a second, would be no traffic at all: one is taken instead.
    pub fn new(per_second: f64, burst: f64) -> Self {
        let (per_second, burst) = (per_second.max(1.0), burst.max(1.0));
        Self { bucket: Arc::new(Bucket { per_second, burst, level: Mutex::new((burst, Instant::now())) }) }
    }

    /// Takes a request out, and says how long it has to wait.
    fn take(&self) -> Duration {
        let Bucket { per_second, burst, level } = &*self.bucket;
        let mut level = level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let filled = (level.0 + now.duration_since(level.1).as_secs_f64() * per_second).min(*burst);
        *level = (filled - 1.0, now);
        Duration::from_secs_f64((-level.0).max(0.0) / per_second)
    }
}

impl<S> Layer<S> for Throttle {
    type Service = Throttled<S>;

    fn layer(&self, inner: S) -> Throttled<S> {
        Throttled { inner, throttle: self.clone() }
    }
}

/// A service whose requests wait for the [`Throttle`].
#[derive(Debug)]
pub struct Throttled<S> {
    inner: S,
    throttle: Throttle,
}

impl<S, B> Service<Request<B>> for Throttled<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_lease = request.uri().path().starts_with(LEASES);
        let wait = if is_lease { Duration::ZERO } else { self.throttle.take() };
        // Nothing is sent before the answer is awaited.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            answer.await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let throttle = Throttle::new(10.0, 3.0);
        let waits: Vec<u128> = (0..5).map(|_| throttle.take().as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(throttle.take().as_millis(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_bucket_does_not_grow_beyond_its_burst() {
        let throttle = Throttle::new(10.0, 2.0);
        tokio::time::advance(Duration::from_mins(1)).await;
        let waits: Vec<u128> = (0..3).map(|_| throttle.take().as_millis()).collect();
        assert_eq!(waits, [0, 0, 100]);
    }
}
