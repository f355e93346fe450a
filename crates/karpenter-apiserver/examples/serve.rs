//! Serves an empty cluster on TCP: `cargo run --release -p karpenter-apiserver --example serve -- KUBECONFIG [PORT]`.

use std::path::PathBuf;
use std::time::Instant;

use karpenter_apiserver::serve::{Identity, kubeconfig, serve};
use karpenter_apiserver::{ApiServer, Options, User};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("name the kubeconfig file to write")?);
    let port: u16 = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    let mut options = Options::default();
    let token = options.environment.uid();
    options.tokens.insert(token.clone(), User::admin());
    let server = ApiServer::new(options);
    let identity = Identity::generate(&["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    std::fs::write(&path, kubeconfig(address, &identity, Some(&token)))?;
    println!("https://{address} is ready after {:?}; KUBECONFIG={}", started.elapsed(), path.display());
    tokio::select! {
        outcome = serve(server.clone(), listener, &identity) => outcome?,
        () = server.run_collector() => {}
    }
    Ok(())
}
