//! What a boot script makes of a machine, read as the image would read it.
//!
//! Written from what the images document, and not from what writes our scripts, which it judges. A script that would not start a
//! kubelet for this cluster is an error that says why.

mod bottlerocket;
mod mime;
mod node_config;
mod script;
mod words;

use std::collections::BTreeMap;

use karpenter_simcloud::Taint;

use crate::images::Family;

/// A kubelet's configuration, as far as the node shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kubelet {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) max_pods: Option<u32>,
    pub(crate) pods_per_core: Option<u32>,
    pub(crate) kube_reserved: BTreeMap<String, String>,
    pub(crate) system_reserved: BTreeMap<String, String>,
    pub(crate) eviction_hard: BTreeMap<String, String>,
    /// Whether the disks inside the machine become the kubelet's storage.
    pub(crate) raid0: bool,
    /// Whether what is not reserved here is reserved by the image's own formulas.
    pub(crate) reserves_by_itself: bool,
    /// Whether the pods that network interfaces have addresses for limit the pods by default.
    pub(crate) counts_addresses: bool,
}

/// Who a boot script would join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cluster {
    name: String,
    endpoint: String,
    authority: String,
}

impl Cluster {
    fn check(&self, wanted: &str) -> Result<(), String> {
        let missing =
            [("name", &self.name), ("endpoint", &self.endpoint), ("certificate authority", &self.authority)];
        if let Some((what, _)) = missing.iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("the boot script does not say the cluster's {what}"));
        }
        if self.name != wanted {
            return Err(format!(
                "the boot script joins the cluster {:?}, and this one is {wanted:?}",
                self.name
            ));
        }
        Ok(())
    }
}

/// Reads a boot script as an image of `family` does.
pub(crate) fn read(family: Family, user_data: &[u8], cluster: &str) -> Result<Kubelet, String> {
    let text = std::str::from_utf8(user_data).map_err(|_| "the boot script is not text")?;
    if text.trim().is_empty() {
        return Err("there is no boot script, so nothing starts a kubelet".to_owned());
    }
    match family {
        Family::Bottlerocket => bottlerocket::read(text, cluster),
        Family::Windows => script::windows(text, cluster),
        _ => linux(family, text, cluster),
    }
}

fn linux(family: Family, text: &str, cluster: &str) -> Result<Kubelet, String> {
    let parts = mime::parts(text)?;
    if let Some(kubelet) = parts.iter().find_map(|part| script::nodeup(&part.body, cluster)) {
        return kubelet;
    }
    if family == Family::Al2023 {
        return node_config::read(&parts, cluster);
    }
    let kubelet =
        parts.iter().filter(|part| part.is_script()).find_map(|part| script::bootstrap(&part.body, cluster));
    kubelet.unwrap_or_else(|| {
        Err("nothing in the boot script starts a kubelet: neither /etc/eks/bootstrap.sh nor nodeup is called".to_owned())
    })
}

/// The arguments of a kubelet, one by one.
fn arguments(arguments: &[String]) -> Result<Kubelet, String> {
    let mut kubelet = Kubelet::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (&**argument, rest.next().cloned().unwrap_or_default()),
        };
        // A second pair of quotes is the kubelet's service file's to take away.
        let value = value.trim_matches('"').to_owned();
        let pairs = |separator: char| {
            value
                .split(',')
                .filter(|pair| !pair.is_empty())
                .map(|pair| pair.split_once(separator).unwrap_or((pair, "")))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let number = || value.parse().map_err(|_| format!("{name} is {value:?}, which is not a number"));
        match name {
            "--node-labels" => kubelet.labels.extend(pairs('=')),
            "--register-with-taints" => {
                for taint in value.split(',').filter(|taint| !taint.is_empty()) {
                    kubelet.taints.push(taint_of(taint)?);
                }
            }
            "--max-pods" => kubelet.max_pods = Some(number()?),
            "--pods-per-core" => kubelet.pods_per_core = Some(number()?),
            "--kube-reserved" => kubelet.kube_reserved = pairs('='),
            "--system-reserved" => kubelet.system_reserved = pairs('='),
            "--eviction-hard" => kubelet.eviction_hard = pairs('<'),
            _ => {}
        }
    }
    check_labels(&kubelet.labels)?;
    Ok(kubelet)
}

/// A kubelet that asks for labels it may not set does not start.
fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    const OWN: [&str; 12] = [
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/windows-build",
    ];
    let refused = labels.keys().find(|key| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let of = |suffix: &str| domain == suffix || domain.ends_with(&format!(".{suffix}"));
        (of("kubernetes.io") || of("k8s.io"))
            && !OWN.contains(&&***key)
            && !of("kubelet.kubernetes.io")
            && !of("node.kubernetes.io")
    });
    match refused {
        Some(key) => Err(format!("the kubelet does not start: it may not set the label {key} itself")),
        None => Ok(()),
    }
}

/// `key=value:Effect`, the value perhaps left out.
fn taint_of(text: &str) -> Result<Taint, String> {
    let (rest, effect) = text.rsplit_once(':').ok_or_else(|| format!("{text:?} is not a taint"))?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        return Err(format!("{text:?} is not a taint: {effect:?} is no effect"));
    }
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

#[cfg(test)]
mod tests;
