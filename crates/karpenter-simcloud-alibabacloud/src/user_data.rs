//! What a machine does with its user data: which scripts cloud-init runs, and what the attach script is told.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_simcloud::Taint;
use serde_json::{Map, Value};

use crate::shell;

/// Settings that the attach script takes for the kubelet.
const KUBELET_FIELDS: &[&str] = &[
    "allowedUnsafeSysctls",
    "clusterDNS",
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "cpuCFSQuota",
    "cpuManagerPolicy",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "featureGates",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "maxPods",
    "podPidsLimit",
    "podsPerCore",
    "readOnlyPort",
    "registryBurst",
    "registryPullQPS",
    "serializeImagePulls",
    "systemReserved",
    "topologyManagerPolicy",
];

/// Labels of the cluster's own domains that a kubelet may set.
const ALLOWED_LABELS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// What the attach script is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Join {
    pub(crate) token: String,
    pub(crate) endpoint: String,
    pub(crate) runtime: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) kubelet: Map<String, Value>,
}

/// Reads user data as it was sent; an error says why its machine never joins.
pub(crate) fn join(user_data: &str) -> Result<Join, String> {
    if user_data.is_empty() {
        return Err("it has no user data, so nothing joins it to a cluster".to_owned());
    }
    let decoded = STANDARD.decode(user_data).map_err(|_| "its user data is not Base64".to_owned())?;
    let text = String::from_utf8(decoded).map_err(|_| "its user data is not text".to_owned())?;
    for script in scripts(&text)? {
        if let Some(arguments) = attach_arguments(&script)? {
            return read_arguments(&arguments);
        }
    }
    Err("none of its scripts calls the attach script with a token".to_owned())
}

/// The scripts cloud-init runs, in their order.
fn scripts(text: &str) -> Result<Vec<String>, String> {
    let head = text.get(..13).unwrap_or(text).to_ascii_lowercase();
    if head.starts_with("#!") {
        return Ok(vec![text.to_owned()]);
    }
    if !(head.starts_with("mime-version:") || head.starts_with("content-type:")) {
        return Err("its user data begins neither with #! nor as MIME, so cloud-init runs nothing".to_owned());
    }
    let text = text.replace("\r\n", "\n");
    let (headers, body) = text.split_once("\n\n").ok_or("its MIME user data has no body")?;
    let boundary = headers
        .split(['\n', ';'])
        .find_map(|field| field.trim().strip_prefix("boundary="))
        .map(|boundary| boundary.trim_matches('"'))
        .ok_or("its MIME user data names no boundary")?;
    let delimiter = format!("--{boundary}");
    if !body.contains(&format!("{delimiter}--")) {
        return Err("its MIME user data is never closed".to_owned());
    }
    let parts = body.split(delimiter.as_str()).skip(1).take_while(|part| !part.starts_with("--"));
    parts.filter_map(|part| script_of_part(part.trim_start_matches('\n')).transpose()).collect()
}

/// The script of a MIME part; `None` when it is something else.
fn script_of_part(part: &str) -> Result<Option<String>, String> {
    let (headers, body) = part.split_once("\n\n").unwrap_or(("", part));
    let headers = headers.to_ascii_lowercase();
    if !headers.contains("text/x-shellscript") {
        return Ok(None);
    }
    let script = if headers.contains("content-transfer-encoding: base64") {
        let joined: String = body.split_whitespace().collect();
        let decoded =
            STANDARD.decode(joined).map_err(|_| "a part of its user data is not Base64".to_owned())?;
        String::from_utf8(decoded).map_err(|_| "a part of its user data is not text".to_owned())?
    } else {
        body.to_owned()
    };
    if script.starts_with("#!") {
        Ok(Some(script))
    } else {
        Err("a script of its user data does not begin with #!, so it cannot be run".to_owned())
    }
}

/// The arguments of the attach script, where this script calls it.
fn attach_arguments(script: &str) -> Result<Option<Vec<String>>, String> {
    let commands = shell::commands(script)?;
    let attach = commands.into_iter().find(|words| words.iter().any(|word| word == "--token"));
    let Some(words) = attach else { return Ok(None) };
    if words.iter().any(|word| word.contains('\r')) {
        return Err("an argument of its attach script ends in a carriage return".to_owned());
    }
    Ok(Some(words))
}

fn read_arguments(words: &[String]) -> Result<Join, String> {
    let value = |name: &str| {
        let at = words.iter().rposition(|word| word == name)?;
        words.get(at + 1).filter(|value| !value.starts_with("--")).cloned()
    };
    let text = |name: &str| value(name).unwrap_or_default();
    let node_config = value("--node-config").map(|config| kubelet_settings(&config)).transpose()?;
    Ok(Join {
        token: text("--token"),
        endpoint: text("--endpoint"),
        runtime: text("--runtime"),
        labels: labels(&text("--labels"))?,
        taints: taints(&text("--taints"))?,
        kubelet: node_config.unwrap_or_default(),
    })
}

fn kubelet_settings(config: &str) -> Result<Map<String, Value>, String> {
    let decoded = STANDARD.decode(config).map_err(|_| "its --node-config is not Base64".to_owned())?;
    let config: Value =
        serde_json::from_slice(&decoded).map_err(|_| "its --node-config is not JSON".to_owned())?;
    let settings = config["kubelet_config"].as_object().cloned().unwrap_or_default();
    match settings.keys().find(|name| !KUBELET_FIELDS.contains(&name.as_str())) {
        Some(name) => {
            Err(format!("its --node-config has the kubelet setting {name}, which ACK does not take"))
        }
        None => Ok(settings),
    }
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for label in text.split(',').filter(|label| !label.is_empty()) {
        let (key, value) = label.split_once('=').ok_or_else(|| format!("its label {label} has no value"))?;
        check_label(key, value)?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

/// Whether a kubelet starts with this label.
fn check_label(key: &str, value: &str) -> Result<(), String> {
    let (domain, name) = key.rsplit_once('/').map_or(("", key), |(domain, name)| (domain, name));
    if !part(name) || (!value.is_empty() && !part(value)) {
        return Err(format!("its label {key}={value} is malformed, so its kubelet does not start"));
    }
    let ours = |suffix: &str| domain == suffix || domain.ends_with(&format!(".{suffix}"));
    let open = ours("kubelet.kubernetes.io") || ours("node.kubernetes.io");
    if (ours("kubernetes.io") || ours("k8s.io")) && !open && !ALLOWED_LABELS.contains(&key) {
        return Err(format!("its kubelet does not start: it may not set the label {key}"));
    }
    Ok(())
}

/// Up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn part(text: &str) -> bool {
    let alphanumeric = |at: Option<char>| at.is_some_and(|found| found.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|found| found.is_ascii_alphanumeric() || "-_.".contains(found))
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().next_back())
}

fn taints(text: &str) -> Result<Vec<Taint>, String> {
    let taint = |text: &str| {
        let (pair, effect) =
            text.rsplit_once(':').ok_or_else(|| format!("its taint {text} has no effect"))?;
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(format!("its taint {text} has an unknown effect"));
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key.is_empty() {
            return Err(format!("its taint {text} has no key"));
        }
        Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    };
    text.split(',').filter(|taint| !taint.is_empty()).map(taint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACH: &str = "curl http://x/attach_node.sh | bash -s -- --token abc.def --endpoint 10.0.0.1:6443";

    fn read(script: &str) -> Result<Join, String> {
        join(&STANDARD.encode(script))
    }

    #[test]
    fn arguments_of_the_attach_script_are_read() {
        let config = STANDARD.encode(r#"{"kubelet_config":{"maxPods":64}}"#);
        let script = format!(
            "#!/bin/bash\nset -e\n{ATTACH} --labels 'a=b,karpenter.sh/capacity-type=spot' \
             --taints 'x=y:NoSchedule,karpenter.sh/unregistered:NoExecute' --node-config {config}\n"
        );
        let join = read(&script).unwrap();
        assert_eq!((join.token.as_str(), join.endpoint.as_str()), ("abc.def", "10.0.0.1:6443"));
        assert_eq!(join.labels["karpenter.sh/capacity-type"], "spot");
        assert_eq!(join.taints[1].key, "karpenter.sh/unregistered");
        assert_eq!(join.kubelet["maxPods"], 64);
    }

    #[test]
    fn scripts_are_found_in_mime() {
        let text = format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: text/x-shellscript\n\n\
             #!/bin/sh\necho hello\n--B\nContent-Type: text/x-shellscript\n\n#!/bin/bash\n{ATTACH}\n--B--\n"
        );
        assert_eq!(read(&text).unwrap().token, "abc.def");
        let open = text.replace("--B--", "--B");
        assert!(read(&open).unwrap_err().contains("never closed"));
    }

    #[test]
    fn what_cloud_init_would_not_run_is_named() {
        assert!(join("").unwrap_err().contains("no user data"));
        assert!(join("%%%").unwrap_err().contains("Base64"));
        assert!(read(ATTACH).unwrap_err().contains("neither with #!"));
        assert!(read("#!/bin/sh\necho 1\n").unwrap_err().contains("none of its scripts"));
    }

    #[test]
    fn a_carriage_return_left_in_the_script_is_found() {
        assert!(read(&format!("#!/bin/sh\n{ATTACH}\r\n")).unwrap_err().contains("carriage return"));
    }

    #[test]
    fn a_kubelet_refuses_labels_of_the_clusters_domains() {
        let script = |label: &str| format!("#!/bin/sh\n{ATTACH} --labels {label}\n");
        assert!(read(&script("foo.kubernetes.io/bar=x")).is_err());
        assert!(read(&script("node.kubernetes.io/instance-type=x")).is_ok());
        assert!(read(&script("karpenter.k8s.alibabacloud/instance-family=ecs.g7")).is_ok());
        assert!(read(&script("a=b+c")).is_err());
    }

    #[test]
    fn settings_that_ack_does_not_know_are_refused() {
        let config = STANDARD.encode(r#"{"kubelet_config":{"maxPodz":64}}"#);
        let script = format!("#!/bin/sh\n{ATTACH} --node-config {config}\n");
        assert!(read(&script).unwrap_err().contains("maxPodz"));
    }
}
