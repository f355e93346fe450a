//! A small cluster of kOps to vary.

use karpenter_kops::{CloudFacts, Inventory, Scripts, Source, generate, questions, validate};
use serde_json::{Value, json};

/// What the cloud of the tests knows.
pub(crate) const FACTS: &str = "
accountID: '111122223333'
images:
- {id: ami-0a, name: base-1, owner: '111122223333', creationDate: '2026-01-01T00:00:00.000Z', rootDeviceName: /dev/sda1, architecture: x86_64}
- {id: ami-0b, name: base-2, owner: '111122223333', creationDate: '2026-03-01T00:00:00.000Z', rootDeviceName: /dev/sdb1, architecture: x86_64}
- {id: ami-0c, name: images/arm, owner: 099720109477, creationDate: '2026-02-01T00:00:00.000Z', rootDeviceName: /dev/xvda, architecture: arm64}
- {id: ami-0d, name: rootless, owner: '111122223333', creationDate: '2026-02-01T00:00:00.000Z', architecture: x86_64}
ssmParameters: {/images/base: ami-0a}
";

/// A cluster with a control plane and one group named `workers`.
pub(crate) struct Kops {
    pub(crate) cluster: Value,
    pub(crate) control_plane: Value,
    pub(crate) workers: Value,
}

impl Kops {
    /// A group that Karpenter manages, with these fields beside role, manager, image and subnets.
    pub(crate) fn with(spec: &Value) -> Self {
        let mut kops = Self {
            cluster: object(
                "Cluster",
                "one.example.com",
                &json!({
                    "cloudProvider": "aws",
                    "iam": {"useServiceAccountExternalPermissions": true},
                    "karpenter": {"enabled": true},
                    "etcdClusters": [{"name": "main", "etcdMembers": [{"instanceGroup": "control-plane"}]}],
                    "subnets": [{"name": "a", "type": "Public"}, {"name": "b", "type": "Public"}, {"name": "inner", "type": "Private"}],
                }),
            ),
            control_plane: object(
                "InstanceGroup",
                "control-plane",
                &json!({
                    "role": "Master", "image": "ami-0a", "machineType": "m5.large", "minSize": 1, "maxSize": 1, "subnets": ["a"],
                }),
            ),
            workers: object(
                "InstanceGroup",
                "workers",
                &json!({
                    "role": "Node", "manager": "Karpenter", "image": "ami-0a", "subnets": ["a"],
                }),
            ),
        };
        merge(&mut kops.workers["spec"], spec);
        kops
    }

    /// The same with other settings of the cluster.
    pub(crate) fn in_cluster(mut self, spec: &Value) -> Self {
        merge(&mut self.cluster["spec"], spec);
        self
    }

    pub(crate) fn text(&self) -> String {
        [&self.cluster, &self.workers, &self.control_plane].map(|object| format!("---\n{object}\n")).concat()
    }

    pub(crate) fn inventory(&self) -> Inventory {
        Inventory::read([("cluster.yaml", self.text().as_str())]).unwrap()
    }

    /// The objects of the group.
    pub(crate) fn objects(&self) -> (Value, Value) {
        let inventory = self.inventory();
        let answers = CloudFacts::read(FACTS).unwrap().answer(&questions(&inventory));
        let refusals = validate(&inventory, &answers, Source::Files);
        assert!(refusals.is_empty(), "{refusals:?}");
        let scripts: Scripts = [("workers".to_owned(), "#!/bin/sh\nexit 0\n".to_owned())].into();
        let mut pairs = generate(&inventory, &answers, &scripts).unwrap();
        assert_eq!(pairs.len(), 1);
        let pair = pairs.remove(0);
        (pair.node_class, pair.node_pool)
    }

    pub(crate) fn node_class(&self) -> Value {
        self.objects().0["spec"].take()
    }

    pub(crate) fn node_pool(&self) -> Value {
        self.objects().1["spec"].take()
    }

    /// The first refusal, as text; empty when there is none.
    pub(crate) fn refusal(&self, source: Source) -> String {
        let inventory = self.inventory();
        let answers = CloudFacts::read(FACTS).unwrap().answer(&questions(&inventory));
        validate(&inventory, &answers, source).first().map(ToString::to_string).unwrap_or_default()
    }

    /// Why nothing is generated though nothing is refused.
    pub(crate) fn failure(&self) -> String {
        let inventory = self.inventory();
        let answers = CloudFacts::read(FACTS).unwrap().answer(&questions(&inventory));
        assert_eq!(self.refusal(Source::Files), "");
        let scripts: Scripts = [("workers".to_owned(), String::new())].into();
        generate(&inventory, &answers, &scripts).unwrap_err().to_string()
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "kops.k8s.io/v1alpha2", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Fields of the first are replaced by those of the second; `null` removes a field.
fn merge(below: &mut Value, above: &Value) {
    for (key, value) in above.as_object().unwrap() {
        if value.is_null() {
            below.as_object_mut().unwrap().remove(key);
        } else {
            below[key] = value.clone();
        }
    }
}
