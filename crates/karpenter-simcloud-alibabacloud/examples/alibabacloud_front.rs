//! Serves a simulated Alibaba Cloud on loopback and prints what a client needs to know, as one line of JSON.
//!
//! `cargo run -p karpenter-simcloud-alibabacloud --example alibabacloud_front -- [PORT]`; it ends when its standard input is closed.

use std::io::Read as _;
use std::sync::Arc;

use karpenter_environment::SystemEnvironment;
use karpenter_simcloud_alibabacloud::{
    ACCESS_KEY, ACCESS_SECRET, CONTROLLER_ROLE, SECURITY_GROUP, Service, VPC, WORKER_ROLE, World,
};

const REGION: &str = "cn-hangzhou";
const CLUSTER: &str = "csimulated";

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let service = Service::new(World::standard(REGION, CLUSTER), Arc::new(SystemEnvironment));
    let server = service.serve(port).await?;
    let told = service.change(|world| {
        serde_json::json!({
            "endpoint": server.address.to_string(),
            "region": REGION,
            "cluster": CLUSTER,
            "key": ACCESS_KEY,
            "secret": ACCESS_SECRET,
            "vpc": VPC,
            "securityGroup": SECURITY_GROUP,
            "workerRole": WORKER_ROLE,
            "controllerRoleArn": world.role_arn(CONTROLLER_ROLE),
            "oidcProviderArn": world.oidc_provider_arn(CLUSTER),
            "issuer": world.issuer(CLUSTER),
        })
    });
    println!("{told}");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}
