//! The front over plain HTTP, on loopback only.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::service::{ConnectionReset, Service};

/// A front that is being served; dropping it ends it.
pub struct Serving {
    /// Where it is.
    pub address: SocketAddr,
    /// Connections and the passing of time.
    _tasks: JoinSet<()>,
}

impl Serving {
    /// Its address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Service {
    /// Serves this account at a port of 127.0.0.1, zero for any free one, and lets time pass in it.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn serve(&self, port: u16) -> std::io::Result<Serving> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        let service = self.clone();
        tasks.spawn(async move { service.run().await });
        let service = self.clone();
        tasks.spawn(async move { accept(&service, &listener).await });
        Ok(Serving { address, _tasks: tasks })
    }
}

async fn accept(service: &Service, listener: &TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(service.clone(), stream));
                }
                // Too many open files pass.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until it ends; a fault that breaks it is an error of the handler, upon which hyper closes it.
async fn connection(service: Service, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let handler = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { exchange(&service, request).await }
    });
    let _ =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), handler).await;
}

async fn exchange(
    service: &Service,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, ConnectionReset> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| ConnectionReset)?.to_bytes();
    let response = service.handle(Request::from_parts(head, body)).await?;
    Ok::<_, Infallible>(response.map(Full::new)).map_err(|never| match never {})
}
