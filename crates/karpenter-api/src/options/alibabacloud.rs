//! Options of the Alibaba Cloud provider.

use crate::options_table;

options_table! {
    /// Options of the Alibaba Cloud provider.
    AlibabaCloudOptions, table ALIBABA_CLOUD_OPTIONS;

    /// The ACK cluster that machines join where an ECSNodeClass names none.
    cluster_id: String = "", "cluster-id", "CLUSTER_ID", "settings.clusterID";
    /// Share of a machine's memory that never reaches its system, until nodes of its type were seen.
    vm_memory_overhead_percent: f64 = "0.065", "vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT",
        "settings.vmMemoryOverheadPercent";
    /// Looks for spot machines that will be taken back, in Cloud Monitor and among the machines themselves.
    interruption: bool = "true", "interruption", "INTERRUPTION", "settings.interruption";
    /// Name of the Simple Message Queue (MNS) queue to which Cloud Monitor delivers events; without one it is only asked for them.
    interruption_queue: String = "", "interruption-queue", "INTERRUPTION_QUEUE", "settings.interruptionQueue";
}
