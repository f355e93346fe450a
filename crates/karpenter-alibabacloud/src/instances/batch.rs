//! Gathers questions about single things for a moment and asks them together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_alibabacloud_client::{Error, ErrorKind};
use tokio::sync::oneshot;

/// How long questions are gathered.
const WINDOW: Duration = Duration::from_millis(50);
/// How many are asked in one call.
const MOST: usize = 100;

type Ask<R> = dyn Fn(Vec<String>) -> BoxFuture<'static, Result<BTreeMap<String, R>, Error>> + Send + Sync;
type Waiting<R> = (String, oneshot::Sender<Result<R, Error>>);

/// Questions about things with an id.
pub(super) struct Batch<R> {
    shared: Arc<Shared<R>>,
}

struct Shared<R> {
    ask: Box<Ask<R>>,
    waiting: Mutex<Vec<Waiting<R>>>,
}

impl<R: Clone + Send + 'static> Batch<R> {
    /// Questions that `ask` answers, for at most a hundred ids at once.
    pub(super) fn new(
        ask: impl Fn(Vec<String>) -> BoxFuture<'static, Result<BTreeMap<String, R>, Error>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { shared: Arc::new(Shared { ask: Box::new(ask), waiting: Mutex::default() }) }
    }

    /// Asks about one thing, together with whoever asks in the same moment.
    pub(super) async fn ask(&self, id: &str) -> Result<R, Error> {
        let (sender, receiver) = oneshot::channel();
        let first = {
            let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push((id.to_owned(), sender));
            waiting.len() == 1
        };
        if first {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                tokio::time::sleep(WINDOW).await;
                shared.flush().await;
            });
        }
        receiver.await.unwrap_or_else(|_| {
            Err(Error::local("Batch", ErrorKind::Transient, "the question was dropped at shutdown"))
        })
    }
}

impl<R: Clone + Send + 'static> Shared<R> {
    async fn flush(&self) {
        let mut waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        while !waiting.is_empty() {
            let chunk: Vec<Waiting<R>> = waiting.drain(..waiting.len().min(MOST)).collect();
            self.answer(chunk).await;
        }
    }

    async fn answer(&self, chunk: Vec<Waiting<R>>) {
        let mut ids: Vec<String> = chunk.iter().map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        let alone = ids.len() == 1;
        match (self.ask)(ids).await {
            Ok(answers) => {
                for (id, sender) in chunk {
                    let missing =
                        || Error::local("Batch", ErrorKind::NotFound, format!("{id} is not in the answer"));
                    // Who no longer waits needs no answer.
                    let _ = sender.send(answers.get(&id).cloned().ok_or_else(missing));
                }
            }
            // What is wrong with one is no reason to refuse the others.
            Err(error) if !alone && is_about_one(error.kind) => {
                for (id, sender) in chunk {
                    let missing =
                        || Error::local("Batch", ErrorKind::NotFound, format!("{id} is not in the answer"));
                    let answer = (self.ask)(vec![id.clone()]).await;
                    let _ =
                        sender.send(answer.and_then(|answers| answers.get(&id).cloned().ok_or_else(missing)));
                }
            }
            Err(error) => {
                for (_, sender) in chunk {
                    let _ = sender.send(Err(error.clone()));
                }
            }
        }
    }
}

fn is_about_one(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::State | ErrorKind::Invalid | ErrorKind::Denied)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(bad: &'static str) -> (Batch<bool>, Arc<Mutex<Vec<usize>>>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let batch = Batch::new(move |ids: Vec<String>| {
            seen.lock().unwrap().push(ids.len());
            let answer = if ids.iter().any(|id| id == bad) {
                Err(Error::local("DeleteInstances", ErrorKind::State, "initializing"))
            } else {
                Ok(ids.into_iter().map(|id| (id, true)).collect())
            };
            Box::pin(std::future::ready(answer)) as BoxFuture<'static, _>
        });
        (batch, calls)
    }

    #[tokio::test(start_paused = true)]
    async fn questions_of_one_moment_are_one_call() {
        let (batch, calls) = counting("none");
        let ids: Vec<String> = (0..250).map(|number| format!("i-{number}")).collect();
        let answers = futures::future::join_all(ids.iter().map(|id| batch.ask(id))).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(*calls.lock().unwrap(), [100, 100, 50]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_be_ended_does_not_keep_the_others() {
        let (batch, calls) = counting("i-bad");
        let answers = futures::future::join_all(["i-1", "i-bad", "i-2"].map(|id| batch.ask(id))).await;
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(*calls.lock().unwrap(), [3, 1, 1, 1]);
    }
}
