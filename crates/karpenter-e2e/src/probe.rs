//! Asking a process of this machine over HTTP.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// What is answered at a path.
pub(crate) async fn get(port: u16, path: &str) -> anyhow::Result<String> {
    ask(port, path, "").await
}

/// A request simple enough to be written by hand; the answer is read to its end. Every header ends its line.
pub(crate) async fn ask(port: u16, path: &str, headers: &str) -> anyhow::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
