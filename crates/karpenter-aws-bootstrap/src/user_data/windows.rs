//! Windows: a PowerShell block that runs the user's own commands and then EKS's script.

use super::{Input, dns, kubelet_arguments};

pub(super) fn user_data(input: &Input<'_>) -> String {
    let cluster = input.cluster;
    let mut lines = vec!["<powershell>".to_owned()];
    lines.extend(input.custom.filter(|text| !text.is_empty()).map(str::to_owned));
    lines.push(
        "[string]$EKSBootstrapScript = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"".to_owned(),
    );
    let arguments = kubelet_arguments(input);
    let parameters = [
        ("EKSClusterName", Some(cluster.name.as_str())),
        ("APIServerEndpoint", Some(&cluster.endpoint)),
        ("Base64ClusterCA", cluster.ca_bundle.as_deref()),
        ("KubeletExtraArgs", Some(arguments.as_str()).filter(|arguments| !arguments.is_empty())),
        ("DNSClusterIP", dns(input)),
    ];
    let given = parameters.into_iter().filter_map(|(name, value)| Some(format!(" -{name} '{}'", value?)));
    let call = format!("& $EKSBootstrapScript{}", given.collect::<String>());
    lines.extend([call, "</powershell>".to_owned()]);
    lines.join("\n")
}
