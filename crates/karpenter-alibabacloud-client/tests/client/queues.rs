//! Messages of queues: how they are asked for, read and deleted, and what refusals say.

use karpenter_alibabacloud_client::ErrorKind;
use karpenter_alibabacloud_client::mns::{BatchReceiveMessage, DeleteMessage, is_empty};

use crate::fake::{self, answer, header, query};

const MESSAGES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<Messages xmlns="http://mns.aliyuncs.com/doc/v1/">
  <Message>
    <MessageId>A-1</MessageId><ReceiptHandle>1-aB/+=</ReceiptHandle><MessageBodyMD5>00</MessageBodyMD5>
    <MessageBody>{"a": "1 &lt; 2"}</MessageBody><EnqueueTime>1</EnqueueTime><DequeueCount>2</DequeueCount>
  </Message>
  <Message><MessageId>A-2</MessageId><ReceiptHandle>2</ReceiptHandle><MessageBody></MessageBody></Message>
</Messages>"#;

fn receive() -> BatchReceiveMessage {
    BatchReceiveMessage { account: "12".into(), queue: "warnings".into(), most: 16, wait_seconds: 5 }
}

fn refusal(code: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><Error xmlns="http://mns.aliyuncs.com/doc/v1/"><Code>{code}</Code><Message>no</Message><RequestId>R</RequestId><HostId>h</HostId></Error>"#
    )
}

#[tokio::test(start_paused = true)]
async fn messages_are_received_and_deleted_by_what_names_this_sight_of_them() {
    let (seen, client) = fake::client(|request, _| {
        Some(if request.method() == "GET" { answer(200, MESSAGES) } else { answer(204, "") })
    });
    let messages = client.call(&receive()).await.unwrap();
    assert_eq!((messages[0].body.as_str(), messages[0].dequeue_count), (r#"{"a": "1 < 2"}"#, 2));
    assert_eq!((messages[1].id.as_str(), messages[1].dequeue_count), ("A-2", 1));
    let handle = messages[0].receipt_handle.clone();
    let delete = DeleteMessage { account: "12".into(), queue: "warnings".into(), receipt_handle: handle };
    client.call(&delete).await.unwrap();
    let sent = seen.all();
    assert_eq!(
        (sent[0].uri().path(), query(&sent[0])),
        ("/queues/warnings/messages", "numOfMessages=16&waitseconds=5")
    );
    assert_eq!((sent[1].method().as_str(), query(&sent[1])), ("DELETE", "ReceiptHandle=1-aB/+="));
    assert!(header(&sent[0], "authorization").starts_with("MNS AK:"));
    assert_eq!(header(&sent[0], "x-mns-version"), "2015-06-06");
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_and_a_missing_one_are_told_apart_and_a_refusal_names_the_right() {
    for (status, code, kind) in [
        (404, "MessageNotExist", ErrorKind::NotFound),
        (404, "QueueNotExist", ErrorKind::NotFound),
        (403, "AccessDenied", ErrorKind::Denied),
    ] {
        let (seen, client) = fake::client(move |_, _| Some(answer(status, refusal(code))));
        let error = client.call(&receive()).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.kind, seen.count()), (code, kind, 1));
        assert_eq!((error.message.as_str(), error.request_id.as_deref()), ("no", Some("R")));
        assert_eq!(is_empty(&error), code == "MessageNotExist");
        let right = (kind == ErrorKind::Denied).then_some("mns:ReceiveMessage");
        assert_eq!(error.missing_action.as_deref(), right);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_of_messages_is_an_error() {
    for body in ["", "{}", "<Messages><Message/></Messages>", "<Messages>"] {
        let (_, client) = fake::client(move |_, _| Some(answer(200, body)));
        assert_eq!(client.call(&receive()).await.unwrap_err().kind, ErrorKind::Invalid, "{body}");
    }
}
