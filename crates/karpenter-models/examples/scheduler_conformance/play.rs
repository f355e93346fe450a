//! One generated cluster, played on both sides pod by pod.
//!
//! Before each pod comes its probe (see [`pods::probe`]): what is said about it counts all nodes by the demand they fail.
//! Then comes the pod itself. The real scheduler decides where it goes, ours must agree that it may go there, and it is put
//! there on both sides, so that both clusters stay the same.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use karpenter_runtime::Key;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::hearing::Verdict;
use crate::pods;
use crate::side::{Side, Trouble, name_in};

/// The real scheduler hears of nodes, volumes and pods on different ways. What differs only because it has not heard of
/// something yet is asked again.
const ASKED_MAX: u32 = 4;
const PAUSE: Duration = Duration::from_millis(300);

/// What was found.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) probes: u64,
    pub(crate) bound: u64,
    pub(crate) refused: u64,
    pub(crate) preemptions: u64,
    pub(crate) same_node: u64,
    /// Differences of a kind that is known and meant.
    pub(crate) known: u64,
    pub(crate) differences: Vec<String>,
}

/// Both sides and the state that our filter judges by.
pub(crate) struct Play<'a> {
    pub(crate) real: &'a Side,
    pub(crate) ours: &'a Side,
    pub(crate) cluster: &'a Cluster,
    pub(crate) findings: &'a mut Findings,
}

impl Play<'_> {
    /// Plays a cluster; it ends early if the sides can no longer be kept the same.
    pub(crate) async fn run(&mut self, chance: &mut Chance, pods: usize) -> Result<(), Trouble> {
        self.real.set_up(self.cluster).await?;
        self.ours.set_up(self.cluster).await?;
        for index in 0..pods {
            let pod = pods::pod(chance, self.cluster, index);
            let removed = chance.percent(30);
            self.probe(&pod).await?;
            if !self.place(&pod, index).await? {
                break;
            }
            if removed {
                self.remove_one(chance).await?;
            }
        }
        self.real.clear().await
    }

    fn differ(&mut self, pod: &Value, what: &str) {
        let text = format!("cluster {}, pod {}: {what}\n  {pod}", self.cluster.name, name_in(pod));
        println!("DIFFERENT: {text}");
        self.findings.differences.push(text);
    }

    /// Asks both about a pod that no node takes.
    async fn probe(&mut self, pod: &Value) -> Result<(), Trouble> {
        let mut probe = pods::probe(pod);
        if let Some(spec) = probe["spec"].as_object_mut() {
            spec.remove("schedulingGates");
        }
        self.findings.probes += 1;
        let mut answers = (Verdict::Silent, Verdict::Silent);
        for asked in 0..ASKED_MAX {
            if asked > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            answers = (self.real.ask(&probe).await?, self.ours.ask(&probe).await?);
            self.real.remove(&probe).await?;
            self.ours.remove(&probe).await?;
            if answers.0 == answers.1 {
                return Ok(());
            }
        }
        let (real, ours) = answers;
        if self.is_known(pod, &real, &ours).await? {
            self.findings.known += 1;
            return Ok(());
        }
        self.differ(&probe, &format!("about its probe\n  real {real:?}\n  ours {ours:?}"));
        Ok(())
    }

    /// Lets both place a pod; `false` if the sides differ from now on.
    async fn place(&mut self, pod: &Value, index: usize) -> Result<bool, Trouble> {
        let mut real = self.real.ask(pod).await?;
        let mut ours = self.ours.ask(pod).await?;
        if pod["spec"]["schedulingGates"].is_array() {
            if (&real, &ours) != (&Verdict::Gated, &Verdict::Gated) {
                self.differ(pod, &format!("behind its gates\n  real {real:?}\n  ours {ours:?}"));
            }
            real = self.real.open(pod).await?;
            ours = self.ours.open(pod).await?;
        }
        match (&real, &ours) {
            (Verdict::Bound(there), Verdict::Bound(here)) => {
                self.findings.bound += 1;
                if there == here {
                    self.findings.same_node += 1;
                } else {
                    self.move_ours(pod, there).await?;
                }
            }
            (Verdict::Refused(_) | Verdict::Waits(..), _) if real == ours => {
                self.findings.refused += 1;
                self.real.remove(pod).await?;
                self.ours.remove(pod).await?;
                return Ok(true);
            }
            (Verdict::Preempts(..), Verdict::Preempts(..)) => {
                self.findings.preemptions += 1;
                let (there, here) = (self.real.placements().await?, self.ours.placements().await?);
                if real != ours || there != here {
                    if self.is_known(pod, &real, &ours).await? {
                        self.findings.known += 1;
                        return Ok(false);
                    }
                    self.differ(
                        pod,
                        &format!("about preemption\n  real {real:?} {there:?}\n  ours {ours:?} {here:?}"),
                    );
                    return Ok(false);
                }
            }
            // The real scheduler wakes a pod only if one that leaves matched all its terms of anti-affinity, though one is
            // enough to be in the way. Such a pod may wait minutes for a place that is free.
            (Verdict::Waits(there, one), Verdict::Preempts(here, other)) if (there, one) == (here, other) => {
                self.findings.known += 1;
                self.real.remove(pod).await?;
                self.ours.remove(pod).await?;
                return Ok(self.real.placements().await? == self.ours.placements().await?);
            }
            _ if self.is_known(pod, &real, &ours).await? => {
                self.findings.known += 1;
                return Ok(false);
            }
            _ => {
                self.differ(pod, &format!("\n  real {real:?}\n  ours {ours:?}"));
                self.real.remove(pod).await?;
                self.ours.remove(pod).await?;
                return Ok(self.real.placements().await? == self.ours.placements().await?);
            }
        }
        let time = format!("2030-01-01T{:02}:{:02}:00Z", index / 60, index % 60);
        self.real.start(pod, &time).await?;
        self.ours.start(pod, &time).await?;
        Ok(true)
    }

    /// Returns whether a difference is one that we mean to have.
    ///
    /// Pods on their way out do not count for topology spread. When the real scheduler tries what would be without such a
    /// pod, it subtracts it all the same, so that preemption finds room in the spread that is not there.
    async fn is_known(&self, pod: &Value, real: &Verdict, ours: &Verdict) -> Result<bool, Trouble> {
        let pods = self.ours.pods().await?;
        let is_going = pods.iter().any(|pod| pod.metadata.deletion_timestamp.is_some());
        let spreads = pod["spec"]["topologySpreadConstraints"].is_array();
        Ok(is_going && spreads && before_preemption(real) == before_preemption(ours))
    }

    /// Puts our pod where the real one went, if our filter lets it.
    async fn move_ours(&mut self, pod: &Value, node: &str) -> Result<(), Trouble> {
        self.ours.remove(pod).await?;
        if let Err(rejection) = self.fits(pod, node).await? {
            self.differ(pod, &format!("the real one goes to {node}, ours refuses: {:?}", rejection.reasons));
        }
        let mut bound = pod.clone();
        bound["spec"]["nodeName"] = node.into();
        if let Some(spec) = bound["spec"].as_object_mut() {
            spec.remove("schedulingGates");
        }
        self.ours.create::<Pod>(&bound).await
    }

    async fn fits(
        &self,
        pod: &Value,
        node: &str,
    ) -> Result<Result<(), karpenter_models::scheduler::Rejection>, Trouble> {
        let mut cluster = karpenter_models::scheduler::Cluster::new();
        for object in &self.cluster.namespaces {
            let labels = serde_json::from_value(object["metadata"]["labels"].clone())?;
            cluster.set_namespace(object["metadata"]["name"].as_str().unwrap_or_default(), Some(&labels));
        }
        for object in &self.cluster.nodes {
            cluster.set_node(&serde_json::from_value(object.clone())?);
        }
        for object in &self.cluster.csi_nodes {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            cluster.set_csi_node(name, Some(&serde_json::from_value(object.clone())?));
        }
        for object in &self.cluster.storage_classes {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            cluster.set_storage_class(name, Some(&serde_json::from_value(object.clone())?));
        }
        let client = &self.ours.client;
        for volume in Api::<PersistentVolume>::all(client.clone()).list(&ListParams::default()).await?.items {
            cluster.set_volume(volume.metadata.name.as_deref().unwrap_or_default(), Some(&volume));
        }
        let claims = Api::<PersistentVolumeClaim>::all(client.clone()).list(&ListParams::default()).await?;
        for claim in claims.items {
            cluster.set_claim(Key::of(&claim), Some(&claim));
        }
        for pod in self.ours.pods().await? {
            cluster.set_pod(&pod);
        }
        Ok(cluster.fits(&serde_json::from_value(pod.clone())?, node))
    }

    /// Removes one of the pods at once, or lets it stay on its way out.
    async fn remove_one(&self, chance: &mut Chance) -> Result<(), Trouble> {
        let pods = self.ours.pods().await?;
        if pods.is_empty() {
            return Ok(());
        }
        let pod = serde_json::to_value(chance.one(&pods))?;
        let stays = chance.percent(50);
        for side in [self.real, self.ours] {
            if stays {
                side.begin_removal(&pod).await?;
            } else {
                side.remove(&pod).await?;
            }
        }
        Ok(())
    }
}

/// What a verdict says apart from preemption.
fn before_preemption(verdict: &Verdict) -> Option<&str> {
    let message = match verdict {
        Verdict::Refused(message) | Verdict::Preempts(_, message) | Verdict::Waits(_, message) => message,
        Verdict::Bound(_) | Verdict::Gated | Verdict::Silent => return None,
    };
    message.split(" no new claims").next()
}
