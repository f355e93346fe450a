//! What a machine runs at its first start: the line that joins it to the cluster, and the user's own part.
//!
//! The attach script comes from ACK. Labels, taints and the kubelet's settings of the claim are added as its arguments, quoted for the
//! shell; the user's part never replaces it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Taint;
use karpenter_api::taints::UNREGISTERED;
use serde_json::json;

use crate::node_class::Kubelet;

/// No machine takes more, before it is encoded.
const MOST_BYTES: usize = 32 * 1024;
const BOUNDARY: &str = "==KARPENTER==";

/// How a machine joins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joining<'a> {
    /// ACK's line of shell; `None` where the user's part does it all.
    pub attach_script: Option<&'a str>,
    /// The cluster.
    pub cluster: &'a str,
    /// The container runtime and its version, where the cluster's pools have another than the script says.
    pub runtime: Option<(&'a str, &'a str)>,
    /// Labels of the node.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints of the node, startup taints included.
    pub taints: &'a [Taint],
    /// The kubelet's settings.
    pub kubelet: Option<&'a Kubelet>,
    /// The user's part.
    pub user_data: Option<&'a str>,
}

/// The user data of a machine, encoded.
///
/// # Errors
/// When it is too long.
pub fn user_data(joining: &Joining<'_>) -> Result<Option<String>, String> {
    let attach = joining.attach_script.map(|script| attach_part(script, joining));
    let user = joining.user_data.map(str::trim).filter(|text| !text.is_empty());
    let text = match (attach, user) {
        (None, None) => return Ok(None),
        (Some(attach), None) => attach,
        (None, Some(user)) => user.to_owned(),
        (Some(attach), Some(user)) => merged(&attach, user),
    };
    if text.len() > MOST_BYTES {
        return Err(format!(
            "the user data has {} bytes and ECS takes {MOST_BYTES}: shorten userData of the ECSNodeClass, for example by fetching scripts",
            text.len()
        ));
    }
    Ok(Some(STANDARD.encode(text)))
}

fn attach_part(script: &str, joining: &Joining<'_>) -> String {
    // The service ends lines as Windows does.
    let script = script.replace('\r', "");
    let mut line = with_runtime(script.trim(), joining.runtime);
    let mut labels = BTreeMap::from([
        ("k8s.aliyun.com", "true".to_owned()),
        ("ack.aliyun.com", joining.cluster.to_owned()),
    ]);
    labels.extend(
        joining
            .labels
            .iter()
            .filter(|(key, _)| may_be_set_by_kubelet(key))
            .map(|(key, value)| (key.as_str(), value.clone())),
    );
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    argument(&mut line, "--labels", &labels.join(","));
    if let Some(config) = joining.kubelet.and_then(node_config) {
        argument(&mut line, "--node-config", &config);
    }
    argument(&mut line, "--taints", &taints(joining.taints).join(","));
    let first = if line.starts_with("#!") { "" } else { "#!/bin/bash\n" };
    format!("{first}{line}\n")
}

fn argument(line: &mut String, name: &str, value: &str) {
    line.push(' ');
    line.push_str(name);
    line.push(' ');
    line.push_str(&quoted(value));
}

/// Quotes text for the shell where it needs it.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The taints as the script takes them. A node is not given pods before Karpenter has seen it.
fn taints(taints: &[Taint]) -> Vec<String> {
    let mut written: Vec<String> = taints
        .iter()
        .map(|taint| match taint.value.as_deref().filter(|value| !value.is_empty()) {
            Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
            None => format!("{}:{}", taint.key, taint.effect),
        })
        .collect();
    let unregistered = format!("{UNREGISTERED}:NoExecute");
    if !written.contains(&unregistered) {
        written.push(unregistered);
    }
    written
}

/// The kubelet's settings in the form ACK takes; `None` if there are none.
fn node_config(kubelet: &Kubelet) -> Option<String> {
    if *kubelet == Kubelet::default() {
        return None;
    }
    let text = json!({ "kubelet_config": kubelet }).to_string();
    Some(STANDARD.encode(text))
}

/// Puts the runtime of the cluster's pools in place of what the script says.
fn with_runtime(script: &str, runtime: Option<(&str, &str)>) -> String {
    let Some((name, version)) = runtime else { return script.to_owned() };
    let with_name = replace_value(script, "--runtime", name);
    replace_value(&with_name, "--runtime-version", version)
}

fn replace_value(script: &str, argument: &str, value: &str) -> String {
    let mut words: Vec<String> = script.split(' ').map(str::to_owned).collect();
    for index in 1..words.len() {
        if words[index - 1] == argument {
            words[index] = quoted(value);
        }
    }
    words.join(" ")
}

/// Labels of Kubernetes' own domains that a kubelet may give itself; with any other it does not start.
fn may_be_set_by_kubelet(key: &str) -> bool {
    const ALLOWED: [&str; 8] = [
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    ];
    let Some((domain, _)) = key.split_once('/') else { return true };
    let within = |name: &str| domain == name || domain.ends_with(&format!(".{name}"));
    if within("kubelet.kubernetes.io") || within("node.kubernetes.io") {
        return true;
    }
    ALLOWED.contains(&key) || !(within("kubernetes.io") || within("k8s.io"))
}

/// A message of several parts: what the user wants first, the attach script, the rest of the user's parts.
fn merged(attach: &str, user: &str) -> String {
    let attach = format!("Content-Type: text/x-shellscript; charset=\"utf-8\"\n\n{attach}");
    let (first, after): (Vec<String>, Vec<String>) = parts(user).into_iter().partition(|part| is_first(part));
    let mut message =
        format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for part in first.iter().chain(std::iter::once(&attach)).chain(&after) {
        message.push_str("--");
        message.push_str(BOUNDARY);
        message.push('\n');
        message.push_str(part.trim_end());
        message.push('\n');
    }
    message.push_str("--");
    message.push_str(BOUNDARY);
    message.push_str("--\n");
    message
}

/// Whether a part asks to run before the machine joins.
fn is_first(part: &str) -> bool {
    let headers = part.split("\n\n").next().unwrap_or(part);
    headers
        .lines()
        .any(|line| line.to_ascii_lowercase().starts_with("content-type:") && line.contains("stage=pre"))
}

/// The user's parts, each with its headers.
fn parts(user: &str) -> Vec<String> {
    let user = user.replace('\r', "");
    if let Some(boundary) = boundary(&user) {
        let mark = format!("--{boundary}");
        let after_headers = user.split_once("\n\n").map_or("", |(_, body)| body);
        let body = format!("\n{after_headers}");
        return body
            .split(&format!("\n{mark}"))
            .skip(1)
            .filter(|part| !part.starts_with("--"))
            .map(|part| part.trim_start_matches('\n').to_owned())
            .filter(|part| !part.trim().is_empty())
            .collect();
    }
    let kind = if user.starts_with("#cloud-config") { "text/cloud-config" } else { "text/x-shellscript" };
    let first = if user.starts_with('#') { "" } else { "#!/bin/bash\n" };
    vec![format!("Content-Type: {kind}; charset=\"utf-8\"\n\n{first}{user}")]
}

/// The boundary of a message that has parts already.
fn boundary(user: &str) -> Option<String> {
    let headers = user.split("\n\n").next()?;
    let lower = headers.to_ascii_lowercase();
    if !lower.contains("content-type: multipart/") {
        return None;
    }
    let place = lower.find("boundary=")? + "boundary=".len();
    let rest = &headers[place..];
    match rest.strip_prefix('"') {
        Some(rest) => Some(rest.split('"').next()?.to_owned()),
        None => Some(rest.split([';', '\n', ' ']).next()?.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &BTreeMap<String, String> = &BTreeMap::new();
    const PLAIN: Joining<'_> = Joining {
        attach_script: None,
        cluster: "c1",
        runtime: None,
        labels: NONE,
        taints: &[],
        kubelet: None,
        user_data: None,
    };

    fn decoded(joining: &Joining<'_>) -> String {
        let encoded = user_data(joining).unwrap().unwrap();
        String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
    }

    const ATTACH: &str =
        "curl -s http://x/attach.sh | bash -s -- --token abc --runtime docker --runtime-version 19.03.5\r\n";

    #[test]
    fn labels_taints_runtime_and_kubelet_reach_the_attach_script() {
        let labels = BTreeMap::from([
            ("team".to_owned(), "a b".to_owned()),
            ("karpenter.sh/nodepool".to_owned(), "default".to_owned()),
            ("node-role.kubernetes.io/worker".to_owned(), "x".to_owned()),
        ]);
        let taint = Taint { key: "airflow-worker".into(), effect: "NoSchedule".into(), ..Taint::default() };
        let kubelet = Kubelet { max_pods: Some(30), ..Kubelet::default() };
        let text = decoded(&Joining {
            attach_script: Some(ATTACH),
            cluster: "c1",
            runtime: Some(("containerd", "1.6.28")),
            labels: &labels,
            taints: &[taint],
            kubelet: Some(&kubelet),
            user_data: None,
        });
        let config = STANDARD.encode(r#"{"kubelet_config":{"maxPods":30}}"#);
        assert_eq!(
            text,
            format!(
                "#!/bin/bash\ncurl -s http://x/attach.sh | bash -s -- --token abc --runtime containerd --runtime-version 1.6.28 --labels \
                 'ack.aliyun.com=c1,k8s.aliyun.com=true,karpenter.sh/nodepool=default,team=a b' --node-config {config} --taints \
                 airflow-worker:NoSchedule,karpenter.sh/unregistered:NoExecute\n"
            )
        );
    }

    #[test]
    fn the_users_part_joins_the_attach_script_and_never_replaces_it() {
        let joining = Joining { attach_script: Some(ATTACH), user_data: Some("echo hi"), ..PLAIN };
        let text = decoded(&joining);
        assert!(text.starts_with("MIME-Version: 1.0\n"), "{text}");
        let (attach, user) = (text.find("attach.sh").unwrap(), text.find("echo hi").unwrap());
        assert!(attach < user);
        assert!(text.contains("#!/bin/bash\necho hi"));
        assert!(text.ends_with("--==KARPENTER==--\n"));
    }

    #[test]
    fn parts_that_ask_for_it_run_before_the_machine_joins() {
        let user = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/cloud-config\n\n\
                    #cloud-config\nlate: true\n--//\nContent-Type: text/x-shellscript; stage=pre\n\n#!/bin/sh\necho early\n--//--\n";
        let joining = Joining { attach_script: Some(ATTACH), user_data: Some(user), ..PLAIN };
        let text = decoded(&joining);
        let place = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} is missing in {text}"));
        assert!(place("echo early") < place("attach.sh") && place("attach.sh") < place("late: true"));
        assert!(!text.contains("--//"));
    }

    #[test]
    fn without_a_cluster_of_ack_the_users_part_stands_alone() {
        let joining = Joining { user_data: Some("#!/bin/sh\njoin"), ..PLAIN };
        assert_eq!(decoded(&joining), "#!/bin/sh\njoin");
        assert_eq!(user_data(&PLAIN), Ok(None));
    }

    #[test]
    fn too_much_is_refused_with_the_limit() {
        let long = "x".repeat(40_000);
        let error = user_data(&Joining { user_data: Some(&long), ..PLAIN }).unwrap_err();
        assert!(error.contains("32768"), "{error}");
    }
}
