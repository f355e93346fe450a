//! Container Service (ACK): clusters, and the script with which machines join them.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::call::{Call, after, seconds};
use crate::service::unknown_action;
use crate::wire::{Body, Refusal, Reply};
use crate::world::{Cluster, Image, JoinToken, NodePool, World};

/// How long a join token lasts when the caller does not say.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// How long it is known that a token has expired, for whoever wonders why a machine does not join.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);

/// The action that a method and a path mean.
pub(crate) fn action(method: &Method, path: &[&str]) -> &'static str {
    match (method, path) {
        (&Method::GET, ["clusters", _]) => "DescribeClusterDetail",
        (&Method::POST, ["clusters", _, "attachscript"]) => "DescribeClusterAttachScripts",
        (&Method::GET, ["clusters", _, "nodepools"]) => "DescribeClusterNodePools",
        (&Method::GET, ["clusters", _, "addon_instances", _]) => "GetClusterAddonInstance",
        (&Method::GET, ["api", "v1", "metadata", "versions"]) => "DescribeKubernetesVersionMetadata",
        _ => "Unknown",
    }
}

pub(crate) fn dispatch(action: &str, world: &mut World, call: &Call<'_>) -> Reply {
    match action {
        "DescribeClusterDetail" => Ok(Body::Json(detail(world, cluster(world, call)?))),
        "DescribeClusterAttachScripts" => attach_script(world, call),
        "DescribeClusterNodePools" => {
            let pools: Vec<Value> = cluster(world, call)?.node_pools.iter().map(node_pool).collect();
            Ok(Body::Json(json!({"nodepools": pools})))
        }
        "GetClusterAddonInstance" => addon(world, call),
        "DescribeKubernetesVersionMetadata" => versions(world, call),
        _ => unknown_action(action),
    }
}

fn cluster<'w>(world: &'w World, call: &Call<'_>) -> Result<&'w Cluster, Refusal> {
    let id = call.path.get(1).map(String::as_str).unwrap_or_default();
    let missing = || Refusal::not_found("ErrorClusterNotFound", &format!("cluster {id}"));
    world.clusters.get(id).ok_or_else(missing)
}

fn detail(world: &World, cluster: &Cluster) -> Value {
    let meta = json!({
        "ClusterId": cluster.id,
        "KubernetesVersion": cluster.version,
        "Capabilities": {"Network": cluster.network, "NodeCIDRMask": cluster.node_cidr_mask.to_string()},
    });
    json!({
        "cluster_id": cluster.id,
        "name": cluster.name,
        "cluster_type": "ManagedKubernetes",
        "cluster_spec": "ack.pro.small",
        "current_version": cluster.version,
        "init_version": cluster.version,
        "state": cluster.state,
        "region_id": world.region,
        "vpc_id": cluster.vpc,
        "vswitch_ids": cluster.vswitches,
        "vswitch_id": cluster.vswitches.join(","),
        "security_group_id": cluster.security_group,
        "worker_ram_role_name": cluster.worker_role,
        "node_cidr_mask": cluster.node_cidr_mask.to_string(),
        "ip_stack": cluster.ip_stack,
        "meta_data": meta.to_string(),
        "master_url": json!({"intranet_api_server_endpoint": format!("https://{}", cluster.endpoint)}).to_string(),
        "rrsa_config": {
            "enabled": true,
            "issuer": world.issuer(&cluster.id),
            "oidc_arn": world.oidc_provider_arn(&cluster.id),
            "audience": crate::setup::AUDIENCE,
        },
    })
}

fn node_pool(pool: &NodePool) -> Value {
    json!({
        "nodepool_info": {"nodepool_id": pool.id, "name": pool.name, "is_default": pool.is_default, "type": "ess"},
        "status": {"healthy_nodes": pool.healthy_nodes, "total_nodes": pool.healthy_nodes, "state": "active"},
        "kubernetes_config": {
            "runtime": pool.runtime,
            "runtime_version": pool.runtime_version,
            "labels": [],
            "taints": [],
        },
    })
}

/// The command with which a machine joins, with a token of its own.
fn attach_script(world: &mut World, call: &Call<'_>) -> Reply {
    let cluster = cluster(world, call)?.clone();
    let asked = call.body["expired"].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let expires = asked.unwrap_or_else(|| after(call.now, TOKEN_LIFE));
    if expires <= call.now {
        return Err(Refusal::new(400, "InvalidParameter.expired", "The token would have expired already."));
    }
    let number = u128::from_be_bytes(call.environment.entropy());
    let token = format!("{:06x}.{:016x}", (number >> 64) & 0x00ff_ffff, number as u64);
    let (runtime, version) = runtimes(&cluster.version)[0];
    let mut command = format!(
        "curl http://aliacs-k8s-{region}.oss-{region}-internal.aliyuncs.com/public/pkg/run/attach/{}/attach_node.sh | \
         bash -s -- --token {token} --endpoint {} --cluster-dns 172.21.0.10 --cluster-id {} --region {region} \
         --runtime {runtime} --runtime-version {version}",
        cluster.version,
        cluster.endpoint,
        cluster.id,
        region = world.region,
    );
    if call.body["keep_instance_name"].as_bool() == Some(true) {
        command.push_str(" --keep-instance-name");
    }
    if call.body["format_disk"].as_bool() == Some(true) {
        command.push_str(" --autofs true");
    }
    world.join_tokens.retain(|_, token| after(token.expires, REMEMBERED) > call.now);
    world.join_tokens.insert(token, JoinToken { cluster: cluster.id, expires });
    Ok(Body::Text(command + "\r\n"))
}

fn addon(world: &World, call: &Call<'_>) -> Reply {
    let cluster = cluster(world, call)?;
    let name = call.path.get(3).map(String::as_str).unwrap_or_default();
    let missing = || Refusal::not_found("AddonNotFound", &format!("add-on {name} in the cluster"));
    let config = cluster.addons.get(name).ok_or_else(missing)?;
    Ok(Body::Json(json!({"name": name, "version": "v1.13.0", "state": "active", "config": config})))
}

/// The container runtimes of a Kubernetes version, the default first.
fn runtimes(version: &str) -> &'static [(&'static str, &'static str)] {
    let minor: u32 = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    if minor >= 24 {
        &[("containerd", "1.6.38"), ("containerd", "2.1.3")]
    } else {
        &[("docker", "19.03.15"), ("containerd", "1.5.13")]
    }
}

fn versions(world: &World, call: &Call<'_>) -> Reply {
    let params = &call.params;
    let region = params.required("Region")?;
    if region != world.region {
        return Err(Refusal::not_found("InvalidRegionId.NotFound", &format!("region {region}")));
    }
    params.required("ClusterType")?;
    let asked = params.get("KubernetesVersion");
    if asked.is_some_and(|version| version.starts_with('v')) {
        return Err(Refusal::invalid("KubernetesVersion", "it begins with a v"));
    }
    let mut known: Vec<&str> = world.clusters.values().map(|cluster| cluster.version.as_str()).collect();
    known.extend(["1.31.1-aliyun.1", "1.32.1-aliyun.1", "1.33.3-aliyun.1"]);
    known.sort_unstable();
    known.dedup();
    let wanted = known.into_iter().filter(|known| asked.is_none_or(|asked| same_version(known, asked)));
    let images: Vec<Value> =
        world.images.values().filter(|image| !image.ack_type.is_empty()).map(image).collect();
    let version = |version: &str| {
        let runtime = |(name, version): &(&str, &str)| json!({"name": name, "version": version});
        json!({
            "version": version,
            "creatable": true,
            "images": images,
            "runtimes": runtimes(version).iter().map(runtime).collect::<Vec<_>>(),
            "release_date": seconds(Timestamp::UNIX_EPOCH),
        })
    };
    Ok(Body::Json(wanted.map(version).collect()))
}

/// Whether a version is the one asked for, with or without ACK's own suffix.
fn same_version(known: &str, asked: &str) -> bool {
    known == asked || known.split('-').next() == Some(asked)
}

fn image(image: &Image) -> Value {
    json!({
        "image_id": image.id,
        "image_name": image.name,
        "platform": image.platform,
        "os_type": "Linux",
        "os_version": if image.platform == "Ubuntu" { "22.04" } else { "3" },
        "image_type": image.ack_type,
        "image_category": "system",
        "architecture": image.architecture,
    })
}
