//! The message queue to which Cloud Monitor may deliver events: messages are received in batches and deleted one by one.

use karpenter_alibabacloud_client::mns::{self, BatchReceiveMessage, DeleteMessage, MOST_MESSAGES, Message};
use karpenter_alibabacloud_client::sts::GetCallerIdentity;
use karpenter_alibabacloud_client::{Client, Error};
use tokio::sync::OnceCell;

/// How many seconds a call waits for the first message. The other sources of warnings wait as long.
const WAIT: u32 = 5;
/// Calls in a row at most while the queue is not empty.
const ROUNDS: usize = 10;

pub(super) struct Queue {
    client: Client,
    name: String,
    account: OnceCell<String>,
}

impl Queue {
    pub(super) fn new(client: Client, name: String) -> Self {
        Self { client, name, account: OnceCell::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whose queue it is: the account's that we act for. Queues are found at an address of their account.
    async fn account(&self) -> Result<String, Error> {
        let asked = || async { Ok(self.client.call(&GetCallerIdentity {}).await?.account_id) };
        self.account.get_or_try_init(asked).await.cloned()
    }

    /// What lies in the queue, or comes while we wait.
    pub(super) async fn receive(&self) -> Result<Vec<Message>, Error> {
        let (account, queue) = (self.account().await?, self.name.clone());
        let mut request = BatchReceiveMessage { account, queue, most: MOST_MESSAGES, wait_seconds: WAIT };
        let mut received = Vec::new();
        for _ in 0..ROUNDS {
            let batch = match self.client.call_once(&request).await {
                Ok(batch) => batch,
                Err(error) if mns::is_empty(&error) => Vec::new(),
                // What was received is not lost for a call that failed later.
                Err(_) if !received.is_empty() => Vec::new(),
                Err(error) => return Err(error),
            };
            let more = batch.len() == MOST_MESSAGES as usize;
            received.extend(batch);
            if !more {
                break;
            }
            request.wait_seconds = 0;
        }
        Ok(received)
    }

    /// Deletes the messages with these receipts. One that somebody deleted before is as good as deleted.
    pub(super) async fn delete(&self, receipts: impl IntoIterator<Item = String>) -> Result<(), Error> {
        let account = self.account().await?;
        let deletions = receipts.into_iter().map(|receipt_handle| {
            let (account, queue) = (account.clone(), self.name.clone());
            async move { self.client.call(&DeleteMessage { account, queue, receipt_handle }).await }
        });
        for deleted in futures::future::join_all(deletions).await {
            deleted.map(drop).or_else(|error| if mns::is_empty(&error) { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }
}
