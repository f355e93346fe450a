//! Serves a simulated AWS account on loopback until its standard input ends: `cargo run --example aws_front [port]`.
//!
//! The first line on standard output is its address. Machines boot in a second, so that nobody waits.

use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_environment::SystemEnvironment;
use karpenter_simcloud::{Nobody, Plenty};
use karpenter_simcloud_aws::{Description, Service};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let description = Description {
        start_time: SignedDuration::from_millis(500),
        boot_time: SignedDuration::from_secs(1),
        stop_time: SignedDuration::from_millis(500),
        ..Description::default()
    };
    let service = Service::new(description, Arc::new(Plenty), Arc::new(Nobody), Arc::new(SystemEnvironment));
    let serving = service.serve(port).await?;
    println!("{}", serving.url());
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
