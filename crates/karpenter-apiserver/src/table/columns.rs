//! The columns of built-in kinds, as `kubectl get` shows them.

/// A column's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// Columns above zero are shown with `-o wide` only.
    pub(super) priority: i64,
}

/// The columns of each resource, separated by bars: `#` marks integers, `?` booleans, `@` dates, `+` columns for wide
/// output only.
const COLUMNS: &[(&str, &str)] = &[
    ("pods", "Name|Ready|Status|Restarts|Age|+IP|+Node|+Nominated Node|+Readiness Gates"),
    ("podtemplates", "Name|Containers|Images|Pod Labels"),
    ("poddisruptionbudgets.policy", "Name|Min Available|Max Unavailable|#Allowed Disruptions|Age"),
    ("replicationcontrollers", "Name|#Desired|#Current|#Ready|Age|+Containers|+Images|+Selector"),
    ("replicasets.apps", "Name|#Desired|#Current|#Ready|Age|+Containers|+Images|+Selector"),
    (
        "daemonsets.apps",
        "Name|#Desired|#Current|#Ready|#Up-to-date|#Available|Node Selector|Age|+Containers|+Images|+Selector",
    ),
    ("deployments.apps", "Name|Ready|Up-to-date|Available|Age|+Containers|+Images|+Selector"),
    ("statefulsets.apps", "Name|Ready|Age|+Containers|+Images"),
    ("controllerrevisions.apps", "Name|Controller|Revision|Age"),
    ("jobs.batch", "Name|Status|Completions|Duration|Age|+Containers|+Images|+Selector"),
    (
        "cronjobs.batch",
        "Name|Schedule|Timezone|?Suspend|#Active|Last Schedule|Age|+Containers|+Images|+Selector",
    ),
    ("horizontalpodautoscalers.autoscaling", "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"),
    ("services", "Name|Type|Cluster-IP|External-IP|Port(s)|Age|+Selector"),
    ("ingresses.networking.k8s.io", "Name|Class|Hosts|Address|Ports|Age"),
    ("ingressclasses.networking.k8s.io", "Name|Controller|Parameters|Age"),
    ("networkpolicies.networking.k8s.io", "Name|Pod-Selector|Age"),
    ("endpoints", "Name|Endpoints|Age"),
    ("endpointslices.discovery.k8s.io", "Name|AddressType|Ports|Endpoints|Age"),
    (
        "nodes",
        "Name|Status|Roles|Age|Version|+Internal-IP|+External-IP|+OS-Image|+Kernel-Version|+Container-Runtime",
    ),
    ("events", "Last Seen|Type|Reason|Object|+Subobject|+Source|Message|+First Seen|+Count|+Name"),
    ("namespaces", "Name|Status|Age"),
    ("secrets", "Name|Type|Data|Age"),
    ("configmaps", "Name|Data|Age"),
    ("serviceaccounts", "Name|Age"),
    ("resourcequotas", "Name|Request|Limit|Age"),
    (
        "persistentvolumes",
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|+VolumeMode",
    ),
    (
        "persistentvolumeclaims",
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|+VolumeMode",
    ),
    (
        "storageclasses.storage.k8s.io",
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
    ),
    ("volumeattributesclasses.storage.k8s.io", "Name|DriverName|Age"),
    ("runtimeclasses.node.k8s.io", "Name|Handler|Age"),
    ("servicecidrs.networking.k8s.io", "Name|CIDRs|Age"),
    ("ipaddresses.networking.k8s.io", "Name|ParentRef"),
    ("volumeattachments.storage.k8s.io", "Name|Attacher|PV|Node|?Attached|Age"),
    ("csinodes.storage.k8s.io", "Name|#Drivers|Age"),
    (
        "csidrivers.storage.k8s.io",
        "Name|?AttachRequired|?PodInfoOnMount|?StorageCapacity|TokenRequests|?RequiresRepublish|Modes|Age",
    ),
    ("priorityclasses.scheduling.k8s.io", "Name|#Value|?Global-Default|Age|PreemptionPolicy"),
    ("leases.coordination.k8s.io", "Name|Holder|Age"),
    ("resourceclaims.resource.k8s.io", "Name|State|Age"),
    ("resourceclaimtemplates.resource.k8s.io", "Name|Age"),
    ("deviceclasses.resource.k8s.io", "Name|Age"),
    ("resourceslices.resource.k8s.io", "Name|Node|Driver|Pool|Age"),
    ("rolebindings.rbac.authorization.k8s.io", "Name|Role|Age|+Users|+Groups|+ServiceAccounts"),
    ("clusterrolebindings.rbac.authorization.k8s.io", "Name|Role|Age|+Users|+Groups|+ServiceAccounts"),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", "Name|#Webhooks|Age"),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", "Name|#Webhooks|Age"),
    ("validatingadmissionpolicies.admissionregistration.k8s.io", "Name|#Validations|ParamKind|Age"),
    ("validatingadmissionpolicybindings.admissionregistration.k8s.io", "Name|PolicyName|ParamRef|Age"),
];

/// Columns of kinds that say nothing about theirs.
const OTHERS: &str = "Name|@Created At";

/// Returns the columns of a resource.
pub(super) fn columns(resource: &str) -> Vec<Column> {
    let listed = COLUMNS.iter().find(|(name, _)| *name == resource).map_or(OTHERS, |(_, columns)| *columns);
    listed.split('|').map(column).collect()
}

/// Whether a resource has columns of its own.
pub(super) fn are_listed(resource: &str) -> bool {
    COLUMNS.iter().any(|(name, _)| *name == resource)
}

fn column(text: &'static str) -> Column {
    let (priority, text) = text.strip_prefix('+').map_or((0, text), |rest| (1, rest));
    let marked = |mark: char, kind| text.strip_prefix(mark).map(|name| Column { name, kind, priority });
    marked('#', "integer")
        .or_else(|| marked('?', "boolean"))
        .or_else(|| marked('@', "date"))
        .unwrap_or(Column { name: text, kind: "string", priority })
}

/// Returns the resources with columns of their own.
#[cfg(test)]
pub(super) fn listed() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}
