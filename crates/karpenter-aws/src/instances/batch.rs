//! Many who ask about one instance each become one call about many.
//!
//! The first to ask opens a batch; it is sent when nobody has joined for a moment, when it has waited long enough, or when it is full.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use karpenter_aws_client::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;

const IDLE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// What a call answers about each instance; those it does not mention do not exist.
pub(crate) type Answers<V> = Result<BTreeMap<String, V>, Error>;
type Ask<V> = dyn Fn(Vec<String>) -> BoxFuture<'static, Answers<V>> + Send + Sync;
type Waiting<V> = Vec<(String, oneshot::Sender<Result<Option<V>, Error>>)>;

/// Gathers questions. Clones share batches.
pub(crate) struct Batcher<V> {
    ask: Arc<Ask<V>>,
    /// Who has joined the open batch.
    open: Arc<Mutex<Waiting<V>>>,
    most: usize,
    measure: Arc<dyn Fn(usize, Duration) + Send + Sync>,
}

impl<V> Clone for Batcher<V> {
    fn clone(&self) -> Self {
        Self {
            ask: Arc::clone(&self.ask),
            open: Arc::clone(&self.open),
            most: self.most,
            measure: Arc::clone(&self.measure),
        }
    }
}

impl<V: Clone + Send + 'static> Batcher<V> {
    /// Sends batches of at most `most` through `ask`; `measure` hears of each how large it was and how long it waited.
    pub(crate) fn new(
        most: usize,
        ask: impl Fn(Vec<String>) -> BoxFuture<'static, Answers<V>> + Send + Sync + 'static,
        measure: impl Fn(usize, Duration) + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Arc::new(ask), open: Arc::default(), most, measure: Arc::new(measure) }
    }

    /// Asks about one instance; `None` if there is no such instance.
    pub(crate) async fn ask(&self, id: &str) -> Result<Option<V>, Error> {
        let (sender, receiver) = oneshot::channel();
        let opens = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.push((id.to_owned(), sender));
            open.len() == 1
        };
        if opens {
            tokio::spawn(self.clone().gather());
        }
        receiver.await.expect("a batch answers everybody who joined it")
    }

    fn joined(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn gather(self) {
        let opened = Instant::now();
        loop {
            let before = self.joined();
            tokio::time::sleep(IDLE).await;
            let now = self.joined();
            if now == before || now >= self.most || opened.elapsed() >= LONGEST {
                break;
            }
        }
        let waiting = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        (self.measure)(waiting.len(), opened.elapsed());
        let mut ids: Vec<String> = waiting.iter().map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        let calls = ids.chunks(self.most).map(|chunk| self.ask_about(chunk.to_vec()));
        let mut answers = BTreeMap::new();
        futures::future::join_all(calls).await.into_iter().for_each(|part| answers.extend(part));
        for (id, sender) in waiting {
            let answer = answers.get(&id).cloned().unwrap_or(Ok(None));
            // Who no longer waits needs no answer.
            let _ = sender.send(answer);
        }
    }

    /// One call for all; if it fails for a reason that may be one of them, one call for each.
    async fn ask_about(&self, ids: Vec<String>) -> BTreeMap<String, Result<Option<V>, Error>> {
        let fill = |ids: Vec<String>, answers: Answers<V>| -> BTreeMap<String, Result<Option<V>, Error>> {
            let answer = |id: &String| match &answers {
                Ok(answers) => Ok(answers.get(id).cloned()),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.clone()),
            };
            ids.into_iter().map(|id| (id.clone(), answer(&id))).collect()
        };
        let answers = (self.ask)(ids.clone()).await;
        if ids.len() == 1 || !answers.as_ref().is_err_and(is_about_one) {
            return fill(ids, answers);
        }
        let single = ids.into_iter().map(|id| async {
            let answers = (self.ask)(vec![id.clone()]).await;
            fill(vec![id], answers)
        });
        futures::future::join_all(single).await.into_iter().flatten().collect()
    }
}

/// Whether the call failed because of one of the instances it was about.
fn is_about_one(error: &Error) -> bool {
    use karpenter_aws_client::ErrorKind::{Invalid, NotFound, Precondition, Unauthorized};
    matches!(error.kind, NotFound | Invalid | Precondition | Unauthorized)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use karpenter_aws_client::ErrorKind;

    use super::*;

    type Calls = Arc<Mutex<Vec<Vec<String>>>>;

    fn not_found() -> Error {
        Error {
            operation: "TerminateInstances",
            kind: ErrorKind::NotFound,
            code: "InvalidInstanceID.NotFound".into(),
            message: String::new(),
            status: Some(400),
            request_id: None,
        }
    }

    /// Answers each id with its length; a call that names `i-gone` fails.
    fn batcher(most: usize) -> (Calls, Batcher<usize>) {
        let calls = Calls::default();
        let seen = Arc::clone(&calls);
        let ask = move |ids: Vec<String>| {
            seen.lock().unwrap().push(ids.clone());
            let answers = if ids.iter().any(|id| id == "i-gone") {
                Err(not_found())
            } else {
                Ok(ids.into_iter().map(|id| (id.clone(), id.len())).collect())
            };
            std::future::ready(answers).boxed()
        };
        (calls, Batcher::new(most, ask, |_, _| {}))
    }

    async fn ask_all(batcher: &Batcher<usize>, ids: &[&str]) -> Vec<Option<usize>> {
        let asked = ids.iter().map(|id| batcher.ask(id));
        futures::future::join_all(asked).await.into_iter().map(Result::unwrap).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_at_the_same_time_shares_a_call() {
        let (calls, batcher) = batcher(500);
        assert_eq!(ask_all(&batcher, &["i-1", "i-22", "i-1"]).await, [Some(3), Some(4), Some(3)]);
        assert_eq!(*calls.lock().unwrap(), [["i-1", "i-22"]]);
        let _ = batcher.ask("i-3").await;
        assert_eq!(calls.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_batch_becomes_several_calls() {
        let (calls, batcher) = batcher(2);
        assert_eq!(ask_all(&batcher, &["i-1", "i-2", "i-3"]).await, [Some(3); 3]);
        assert_eq!(*calls.lock().unwrap(), [vec!["i-1", "i-2"], vec!["i-3"]]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_exist_spoils_nothing_for_the_others() {
        let (calls, batcher) = batcher(500);
        assert_eq!(ask_all(&batcher, &["i-1", "i-gone"]).await, [Some(3), None]);
        assert_eq!(calls.lock().unwrap().len(), 3, "one for both, then one for each");
    }
}
