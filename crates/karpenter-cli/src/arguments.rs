//! The command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use karpenter_api::Provider;

use crate::apiserver::ApiserverArguments;
use crate::controller::ControllerArguments;
use crate::kops::KopsCommand;
use crate::lint::LintArguments;
use crate::local::LocalArguments;
use crate::simulate::SimulateArguments;
use crate::webhook::WebhookArguments;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("KARPENTER_COMMIT"), ")");

/// Karpenter gives a Kubernetes cluster the nodes its pods need: the right machines, at the lowest price.
#[derive(Debug, Parser)]
#[command(name = "karpenter", version = VERSION, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Try it without a cluster:
  karpenter local --demo                     workloads that come and go, and nodes with them
  karpenter local                            a whole cluster in this process, with machines on paper
  karpenter solve --explain scenario.json    which nodes would be created for these pods, and why

Find mistakes before the cluster does:
  karpenter lint -f nodepools.yaml

Prepare a cluster:
  karpenter crds --provider kwok | kubectl apply --server-side -f -
  karpenter controller --provider kwok

Have a Kubernetes API in a second:
  karpenter apiserver --data-dir ./cluster

Complete commands in your shell:
  source <(karpenter completions bash)";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Plan nodes for the pods of a scenario file, without touching any cluster
    ///
    /// Prints one result per line, in the order of the files. A scenario holds pods, NodePools, nodes and a catalog of
    /// machines as JSON; docs/scenario.md describes it. A case file, which holds a scenario beside an expected answer, is
    /// accepted as well.
    ///
    /// Exits with 0 when every file got a plan and with 2 when a file cannot be used; the other files are still answered.
    Solve(SolveArguments),
    /// Print the CustomResourceDefinitions, ready for kubectl apply
    ///
    /// Without a provider they admit the labels of every provider. With one, labels of its domain that it does not define
    /// are refused when an object is applied, which catches misspelt labels early.
    Crds(CrdsArguments),
    /// Find what is wrong with NodePools and PodDisruptionBudgets in files, with line and fix, without touching any cluster
    ///
    /// Finds what the API server admits though it can never work: requirements that no machine satisfies, limits below one node, budgets that never open,
    /// NodeClasses that are not there, drains that never end. All files are judged together; which NodeClasses there are is judged only if the files hold some.
    ///
    /// Exits with 1 when there are errors (with --strict also when there are warnings) and with 2 when a file cannot be used.
    Lint(LintArguments),
    /// Run the controllers on a cluster
    ///
    /// The cluster is the kubeconfig's, or the one whose pod this is. The CRDs must be installed: see karpenter crds. Of several
    /// replicas one acts at a time; the others watch and take over when it stops.
    ///
    /// Ends on Ctrl-C or SIGTERM.
    Controller(ControllerArguments),
    /// Answer the API server when NodePools and PodDisruptionBudgets are written: with warnings, never with a refusal
    ///
    /// Optional. Whoever applies an object that can never work is told at once, in the words of karpenter lint. The certificate is made and renewed here.
    ///
    /// Ends on Ctrl-C or SIGTERM; while nobody answers, objects are admitted without warnings.
    Webhook(WebhookArguments),
    /// Run a whole cluster in this process: Kubernetes API, scheduler, kubelets, Karpenter, and machines on paper
    ///
    /// Nothing needs to be installed and nothing outside is touched. Use it with kubectl as any cluster: pods that have no
    /// place get nodes within seconds. A NodePool and a KWOKNodeClass named default are there from the beginning.
    ///
    /// Ends on Ctrl-C or SIGTERM; with --data-dir the next start continues where this one stopped.
    Local(LocalArguments),
    /// Play the demo of karpenter local in simulated time
    ///
    /// Hours pass in seconds. The same seed gives the same events, byte for byte, so a run that went wrong can be looked at again.
    Simulate(SimulateArguments),
    /// Run a Kubernetes API server by itself: no etcd, no nodes, ready at once
    ///
    /// Serves the Kubernetes API over TLS and writes a kubeconfig for it: kubectl, helm and controllers work on it as on
    /// a cluster. Garbage collection and the deletion of namespaces run; nothing schedules pods or runs them.
    ///
    /// Ends on Ctrl-C or SIGTERM: watches are ended, requests under way are finished.
    Apiserver(ApiserverArguments),
    /// Run kOps' InstanceGroups with Karpenter
    ///
    /// Every InstanceGroup with manager: Karpenter becomes an EC2NodeClass and a NodePool, as kOps 1.36 and later write them.
    #[command(subcommand)]
    Kops(KopsCommand),
    /// Print the completion script for a shell
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub(crate) struct SolveArguments {
    /// Scenario or case files; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print a text for people instead of JSON: the nodes, and why pods have no place
    #[arg(long, conflicts_with = "stats")]
    pub(crate) explain: bool,
    /// Print only figures: time and memory of the solve, nodes, price, types per node
    #[arg(long)]
    pub(crate) stats: bool,
    /// Threads to solve with; the plan does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
}

#[derive(Args, Debug)]
pub(crate) struct CrdsArguments {
    /// The cloud the cluster runs on; give the option again for more than one
    #[arg(long = "provider", value_name = "PROVIDER", value_parser = provider_names())]
    pub(crate) providers: Vec<Provider>,
}

pub(crate) fn provider_names() -> impl TypedValueParser<Value = Provider> {
    let names = Provider::ALL.iter().map(|provider| provider.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Provider>())
}
