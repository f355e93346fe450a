//! Which node a machine becomes: what its user data says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_simcloud::{Boot, MachineEvent};

use crate::cloud::{CLUSTER, Cloud, cloud};

fn attach(cloud: &Cloud, body: &str) -> String {
    let (status, answer) = cloud.cs("POST", &format!("/clusters/{CLUSTER}/attachscript"), body.as_bytes());
    assert_eq!(status, 200, "{answer}");
    answer.as_str().expect("text").trim_end().to_owned()
}

/// Launches a machine with a script and returns what became of it.
fn become_node(cloud: &Cloud, script: &str) -> Result<Boot, String> {
    cloud.at_once();
    cloud.launch(&[("UserData", &STANDARD.encode(script))]);
    cloud.wait(1);
    match cloud.told().pop() {
        Some(MachineEvent::Booted(boot)) => Ok(boot),
        Some(MachineEvent::Lost { why, .. }) => Err(why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_has_what_the_attach_script_is_told() {
    let cloud = cloud();
    let config = STANDARD.encode(r#"{"kubelet_config":{"maxPods":20,"systemReserved":{"memory":"1Gi"}}}"#);
    let script = format!(
        "#!/bin/bash\n{} --labels 'team=a,karpenter.sh/capacity-type=spot' --taints 'karpenter.sh/unregistered:NoExecute' \
         --node-config {config}\n",
        attach(&cloud, "{}")
    );
    let boot = become_node(&cloud, &script).unwrap();
    assert!(boot.provider_id.starts_with("cn-hangzhou.i-"));
    assert_eq!(boot.node_name, "cn-hangzhou.10.1.0.1");
    assert_eq!(boot.labels["team"], "a");
    assert_eq!(boot.labels["node.kubernetes.io/instance-type"], "ecs.g7.large");
    assert_eq!(boot.labels["topology.kubernetes.io/zone"], "cn-hangzhou-h");
    assert_eq!(boot.labels["kubernetes.io/arch"], "amd64");
    assert_eq!(boot.taints[0].effect, "NoExecute");
    assert_eq!((boot.capacity["pods"].as_str(), boot.capacity["cpu"].as_str()), ("20", "2000m"));
    assert_eq!(boot.allocatable["cpu"], "1930m");
    let memory = |of: &str| of.trim_end_matches("Ki").parse::<i64>().unwrap() / 1024;
    // What ACK keeps for twenty pods, a GiB for the system and 100 MiB before evictions.
    assert_eq!(memory(&boot.capacity["memory"]) - memory(&boot.allocatable["memory"]), 475 + 1024 + 100);
}

#[test]
fn the_users_own_part_stands_beside_the_attach_script() {
    let cloud = cloud();
    let script = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/x-shellscript; \
         charset=\"us-ascii\"\n\n#!/bin/bash\necho mine\n\n--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n\
         #!/bin/bash\n{} --labels a=b\n\n--//--\n",
        attach(&cloud, "{}")
    );
    assert_eq!(become_node(&cloud, &script).unwrap().labels["a"], "b");
}

#[test]
fn pods_follow_from_the_network_of_the_cluster() {
    let cloud = cloud();
    let script = |cloud: &Cloud| format!("#!/bin/bash\n{}\n", attach(cloud, "{}"));
    // Two more interfaces with six addresses each, and three pods of the host's network.
    assert_eq!(become_node(&cloud, &script(&cloud)).unwrap().capacity["pods"], "15");
    cloud.service.change(|world| "Flannel".clone_into(&mut world.clusters.get_mut(CLUSTER).unwrap().network));
    assert_eq!(become_node(&cloud, &script(&cloud)).unwrap().capacity["pods"], "64");
}

#[test]
fn unusable_user_data_is_named() {
    let cloud = cloud();
    assert!(become_node(&cloud, "").unwrap_err().contains("no user data"));
    assert!(become_node(&cloud, "echo hello").unwrap_err().contains("neither with #!"));
    assert!(become_node(&cloud, "#!/bin/sh\necho hello\n").unwrap_err().contains("attach script"));
    let known = attach(&cloud, "{}");
    let foreign = known.replace("--token ", "--token x");
    assert!(become_node(&cloud, &format!("#!/bin/sh\n{foreign}\n")).unwrap_err().contains("token"));
    let raw = format!("#!/bin/sh\n{known}\r\n --labels a=b\n");
    assert!(become_node(&cloud, &raw).unwrap_err().contains("carriage return"));
    let docker = known.replace("--runtime containerd", "--runtime docker");
    assert!(become_node(&cloud, &format!("#!/bin/sh\n{docker}\n")).unwrap_err().contains("docker"));
}

#[test]
fn a_join_token_ends_when_it_was_said_to() {
    let cloud = cloud();
    let soon = crate::cloud::start().as_second() + 60;
    let script = format!("#!/bin/bash\n{}\n", attach(&cloud, &format!("{{\"expired\": {soon}}}")));
    assert!(become_node(&cloud, &script).is_ok());
    cloud.wait(60);
    assert!(become_node(&cloud, &script).unwrap_err().contains("expired"));
}
