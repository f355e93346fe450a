//! The cloud over plain HTTP on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::service::{ConnectionReset, Service};

/// How long the clock stands still at most between two ticks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A cloud that is served until this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it is served.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Its address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    /// Serves the cloud on 127.0.0.1; port 0 takes any free one. Its clock is driven as well.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub async fn serve(&self, port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let service = self.clone();
        let task = tokio::spawn(async move {
            let mut tasks = JoinSet::new();
            tasks.spawn(service.clone().drive());
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let service = service.clone();
                tasks.spawn(async move { connection(service, stream).await });
                while tasks.try_join_next().is_some() {}
            }
        });
        Ok(Server { address, task })
    }

    /// Lets the environment's time pass for the machines, for ever.
    pub async fn drive(self) {
        loop {
            let now = self.environment().now();
            let until = |next: jiff::Timestamp| next.duration_since(now).max(SignedDuration::from_millis(1));
            let pause = self.tick(now).map(until).and_then(|pause| Duration::try_from(pause).ok());
            tokio::time::sleep(pause.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)).await;
        }
    }
}

async fn connection(service: Service, stream: tokio::net::TcpStream) {
    // Without it small answers wait for the other end's acknowledgement.
    let _ = stream.set_nodelay(true);
    let broken = Arc::new(Notify::new());
    let answer = service_fn(|request: hyper::Request<Incoming>| {
        let (service, broken) = (service.clone(), Arc::clone(&broken));
        async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await else { return Err(ConnectionReset) };
            let answer = service.answer(http::Request::from_parts(parts, body.to_bytes())).await;
            if answer.is_err() {
                broken.notify_one();
            }
            answer.map(|response| response.map(Full::new))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().keep_alive(true);
    let served = builder.serve_connection(TokioIo::new(stream), answer);
    // Whoever is to see a broken connection sees nothing else: no answer, not even that of an error.
    tokio::select! {
        _ = served => {}
        () = broken.notified() => {}
    }
}
