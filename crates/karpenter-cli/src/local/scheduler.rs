//! `--kube-scheduler-configuration FILE`: the profiles that the cluster's scheduler offers.
//!
//! The file is kube-scheduler's own, as far as the model knows it: names, and the default constraints of `PodTopologySpread`. What
//! else it may say would change where pods go on a real cluster and not here, so it is refused.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use karpenter_models::config::{DEFAULT_SCHEDULER, SchedulerConfig, SchedulerProfile};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(crate) struct SchedulerArguments {
    /// A configuration file of kube-scheduler whose profiles this scheduler offers: their names and default spread constraints
    #[arg(long, value_name = "FILE")]
    kube_scheduler_configuration: Option<PathBuf>,
}

impl SchedulerArguments {
    /// The scheduler of the file; the usual one, if none was given.
    pub(crate) fn config(&self) -> anyhow::Result<SchedulerConfig> {
        self.kube_scheduler_configuration.as_deref().map_or_else(|| Ok(SchedulerConfig::default()), read)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct KubeSchedulerConfiguration {
    api_version: String,
    kind: String,
    #[serde(default)]
    profiles: Vec<Profile>,
    /// How a process reaches its API server and who leads mean nothing to a model.
    #[serde(default, rename = "clientConnection")]
    _client_connection: IgnoredAny,
    #[serde(default, rename = "leaderElection")]
    _leader_election: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Profile {
    scheduler_name: Option<String>,
    #[serde(default)]
    plugin_config: Vec<PluginConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginConfig {
    name: String,
    args: PodTopologySpreadArgs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PodTopologySpreadArgs {
    defaulting_type: Option<String>,
    #[serde(default)]
    default_constraints: Vec<Value>,
}

fn read(path: &Path) -> anyhow::Result<SchedulerConfig> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| {
        format!("{} is no KubeSchedulerConfiguration that this scheduler can serve", path.display())
    })
}

fn parse(text: &str) -> anyhow::Result<SchedulerConfig> {
    // Reading through JSON keeps YAML's conveniences, such as numbers in quotes, out of typed fields.
    let value: Value = serde_saphyr::from_str(text)?;
    let file: KubeSchedulerConfiguration = serde_json::from_value(value)?;
    let (version, kind) = (file.api_version.as_str(), file.kind.as_str());
    if (version, kind) != ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration") {
        bail!(
            "it must be a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, not {kind} of {version}"
        );
    }
    if file.profiles.is_empty() {
        return Ok(SchedulerConfig::default());
    }
    let is_alone = file.profiles.len() == 1;
    let mut profiles: Vec<SchedulerProfile> = Vec::new();
    for profile in file.profiles {
        let profile = read_profile(profile, is_alone)?;
        let name = &profile.scheduler_name;
        ensure!(
            profiles.iter().all(|other| other.scheduler_name != *name),
            "two profiles have the schedulerName {name}: give each its own"
        );
        profiles.push(profile);
    }
    Ok(SchedulerConfig { profiles })
}

/// Reads a profile; one that `is_alone` needs no name.
fn read_profile(profile: Profile, is_alone: bool) -> anyhow::Result<SchedulerProfile> {
    let usual = is_alone.then(|| DEFAULT_SCHEDULER.to_owned());
    let name = profile.scheduler_name.or(usual).filter(|name| !name.is_empty());
    let scheduler_name = name.context("a profile has no schedulerName: pods could not ask for it")?;
    let mut default_constraints = None;
    for plugin in profile.plugin_config {
        ensure!(plugin.name == "PodTopologySpread", "pluginConfig of {} is not known here", plugin.name);
        default_constraints = read_spread(&plugin.args)?;
    }
    Ok(SchedulerProfile { scheduler_name, default_constraints })
}

/// The list of default constraints, if there is one.
fn read_spread(args: &PodTopologySpreadArgs) -> anyhow::Result<Option<Vec<TopologySpreadConstraint>>> {
    match args.defaulting_type.as_deref() {
        Some("List") => {
            let spread = json!({"podTopologySpread": {"defaultConstraints": args.default_constraints}});
            let read = karpenter_api::options::SchedulerConfig::parse(&spread.to_string())?;
            Ok(Some(read.default_constraints))
        }
        None | Some("System") if args.default_constraints.is_empty() => Ok(None),
        None | Some("System") => bail!("defaultConstraints need defaultingType: List"),
        Some(other) => bail!("defaultingType is {other}; it must be List or System"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: &str = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
leaderElection: {leaderElect: false}
profiles:
  - schedulerName: default-scheduler
  - schedulerName: spreading
    pluginConfig:
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
            - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
";

    #[test]
    fn profiles_have_names_and_default_constraints() {
        let config = parse(PROFILES).expect("the file is sound");
        let constraints =
            |name: &str| config.profile(name).map(|profile| profile.default_constraints.clone());
        assert_eq!(constraints("default-scheduler"), Some(None));
        let given = constraints("spreading").flatten().expect("the second profile has a list");
        assert_eq!((given.len(), given[0].topology_key.as_str()), (1, "kubernetes.io/hostname"));
        assert_eq!(constraints("other"), None);
    }

    #[test]
    fn the_only_profile_has_the_usual_name_unless_it_says_another() {
        let header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        for profiles in ["", "profiles: []", "profiles: [{}]"] {
            let config = parse(&format!("{header}{profiles}")).expect("the file is sound");
            assert!(config.profile(DEFAULT_SCHEDULER).is_some(), "{profiles}");
        }
        let named =
            parse(&format!("{header}profiles: [{{schedulerName: mine}}]")).expect("the file is sound");
        assert!(named.profile("mine").is_some() && named.profile(DEFAULT_SCHEDULER).is_none());
    }

    #[test]
    fn what_cannot_be_served_is_refused() {
        let cases = [
            ("kind: KubeSchedulerConfiguration", "kind: Pod", "not Pod of"),
            ("schedulerName: spreading", "schedulerName: default-scheduler", "give each its own"),
            ("schedulerName: spreading", "schedulerName: ''", "has no schedulerName"),
            ("name: PodTopologySpread", "name: NodeResourcesFit", "NodeResourcesFit is not known here"),
            ("defaultingType: List", "defaultingType: System", "need defaultingType: List"),
            ("defaultingType: List", "defaultingType: Some", "it must be List or System"),
            ("maxSkew: 1", "maxSkew: 0", "maxSkew must be greater than 0"),
            ("profiles:", "percentageOfNodesToScore: 5\nprofiles:", "unknown field"),
        ];
        for (sound, wrong, expected) in cases {
            let refusal = parse(&PROFILES.replacen(sound, wrong, 1)).expect_err(wrong).to_string();
            assert!(refusal.contains(expected), "{wrong}: {refusal}");
        }
    }
}
