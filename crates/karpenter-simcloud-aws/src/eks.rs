//! EKS: the cluster, and zones that traffic is moved away from.

use serde_json::json;

use crate::answer::Outcome;
use crate::service::unknown;
use crate::wire::refusal::Refusal;
use crate::wire::uri;
use crate::world::{Call, World};

pub(crate) fn answer(world: &World, call: &Call<'_>) -> Outcome {
    let description = &world.description;
    match call.operation {
        "ListClusters" => Ok(json!({"clusters": [description.cluster_name]}).into()),
        "DescribeCluster" => {
            let name = last_segment(call);
            if name != description.cluster_name {
                let message = format!("No cluster found for name: {name}.");
                return Err(Refusal::new("ResourceNotFoundException", message).status(404));
            }
            let subnets: Vec<&String> = world.network.subnets.keys().collect();
            Ok(json!({"cluster": {
                "name": name,
                "arn": description.cluster_arn(),
                "version": description.kubernetes_version,
                "endpoint": description.cluster_endpoint,
                "status": "ACTIVE",
                "platformVersion": "eks.1",
                "roleArn": description.arn("iam", &format!("role/{name}-cluster")),
                "kubernetesNetworkConfig": {"serviceIpv4Cidr": description.service_cidr, "ipFamily": "ipv4"},
                "certificateAuthority": {"data": description.certificate_authority},
                "resourcesVpcConfig": {
                    "vpcId": world.network.vpc,
                    "subnetIds": subnets,
                    "securityGroupIds": [],
                    "endpointPublicAccess": true,
                    "endpointPrivateAccess": true,
                },
                "tags": {},
            }})
            .into())
        }
        other => Err(unknown(other)),
    }
}

/// Zonal shifts of the cluster.
pub(crate) fn managed_resource(world: &World, call: &Call<'_>) -> Outcome {
    let arn = last_segment(call);
    if arn != world.description.cluster_arn() {
        let message = format!("The managed resource {arn} could not be found.");
        return Err(Refusal::new("ResourceNotFoundException", message).status(404));
    }
    let shifts: Vec<_> = world
        .zonal_shifts
        .iter()
        .map(|(zone, expiry)| {
            json!({
                "appliedStatus": if *expiry > call.now { "APPLIED" } else { "NOT_APPLIED" },
                "awayFrom": zone,
                "comment": "simulated",
                "expiryTime": expiry.as_second(),
                "resourceIdentifier": arn,
                "startTime": call.now.as_second(),
                "zonalShiftId": "00000000-0000-4000-8000-000000000000",
            })
        })
        .collect();
    let weights: serde_json::Map<String, serde_json::Value> = world
        .network
        .zones
        .iter()
        .map(|zone| {
            let shifted = world.zonal_shifts.get(&zone.id).is_some_and(|expiry| *expiry > call.now);
            (zone.id.clone(), json!(if shifted { 0.0 } else { 1.0 }))
        })
        .collect();
    Ok(json!({"arn": arn, "name": world.description.cluster_name, "appliedWeights": weights, "zonalShifts": shifts}).into())
}

fn last_segment(call: &Call<'_>) -> String {
    // The path is /clusters/NAME or /managedresources/ARN; an ARN may come with its slash as it is.
    let path = uri::decode(call.request.uri().path(), false);
    path.trim_start_matches('/').split_once('/').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
}
