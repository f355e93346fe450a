//! What the Alibaba Cloud provider counts, under the names of other providers where they count the same.

use karpenter_provider::Warning;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// What is counted. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlibabaCloudMetrics {
    received: Family<Labels, Counter>,
}

impl AlibabaCloudMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "karpenter_interruption_received_messages",
            "What the cloud said about machines, by what it says",
            self.received.clone(),
        );
    }

    /// Counts what was heard.
    pub(crate) fn heard(&self, warnings: &[Warning]) {
        for warning in warnings {
            self.received.get_or_create(&[("message_type", warning.kind.metric())]).inc();
        }
    }
}
