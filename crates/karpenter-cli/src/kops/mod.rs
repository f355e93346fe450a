//! `karpenter kops`: InstanceGroups that Karpenter manages.

mod apply;
mod create;
mod input;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use karpenter_api::yaml::to_yaml_stream;
use karpenter_kops::{LiveCluster, Pair, Scripts, live_refusals};

use apply::ApplyArguments;
use create::CreateArguments;
use input::{Input, InputArguments};

#[derive(Debug, Subcommand)]
pub(crate) enum KopsCommand {
    /// Print the EC2NodeClass and NodePool of every InstanceGroup that Karpenter manages
    ///
    /// Groups come by name, each with its EC2NodeClass first. Nothing is printed when a group is refused or something that it
    /// needs is missing.
    Generate(GenerateArguments),
    /// Say what kOps would refuse of a cluster and its InstanceGroups
    ///
    /// Errors have kOps' form: path, kind, reason. As kOps does, it stops at the first object that is refused.
    ///
    /// Exits with 0 when nothing is refused and with 1 otherwise.
    Validate(ValidateArguments),
    /// Bring the objects of all groups into the cluster, and remove those whose group is gone
    ///
    /// Objects are applied server-side with kOps' labels and an annotation of ours. Only what has both is ever removed, after
    /// the nodes that go with it were listed and you agreed. Refuses where kOps 1.36 or later delivers the objects itself.
    Apply(ApplyArguments),
    /// Add a group that Karpenter manages to a cluster, or create a cluster with one
    ///
    /// Of an existing cluster only the fields that Karpenter needs are set; all others keep their text, comments included.
    Create(CreateArguments),
}

#[derive(Args, Debug)]
pub(crate) struct GenerateArguments {
    #[command(flatten)]
    input: InputArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ValidateArguments {
    #[command(flatten)]
    input: InputArguments,
    /// List every object that is refused, not only the first
    #[arg(long)]
    all: bool,
    /// Look at the cluster of the kubeconfig too: objects of Karpenter v0.x, of others, pools that would change their mode
    #[arg(long)]
    live: bool,
}

pub(crate) fn run(command: &KopsCommand) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match command {
            KopsCommand::Generate(arguments) => generate(arguments).await,
            KopsCommand::Validate(arguments) => validate(arguments).await,
            KopsCommand::Apply(arguments) => apply::run(arguments).await,
            KopsCommand::Create(arguments) => create::run(arguments).await,
        }
    })
}

async fn generate(arguments: &GenerateArguments) -> anyhow::Result<ExitCode> {
    let input = Input::read(&arguments.input).await?;
    let pairs = pairs_of(&input, &arguments.input).await?;
    crate::print(to_yaml_stream(pairs.iter().flat_map(Pair::objects)).as_bytes())
}

/// The objects of all groups, or the reason why there are none.
async fn pairs_of(input: &Input, arguments: &InputArguments) -> anyhow::Result<Vec<Pair>> {
    if let Some(refusal) = input.refusals().into_iter().next() {
        bail!("{refusal}");
    }
    let scripts = input.scripts(arguments).await?;
    Ok(karpenter_kops::generate(&input.inventory, &input.answers, &scripts)?)
}

async fn validate(arguments: &ValidateArguments) -> anyhow::Result<ExitCode> {
    let input = Input::read(&arguments.input).await?;
    let refusals = input.refusals();
    let shown = if arguments.all { refusals.len() } else { refusals.len().min(1) };
    for refusal in &refusals[..shown] {
        eprintln!("Error: {refusal}");
    }
    if !refusals.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if arguments.live {
        // What stands in the way has nothing to do with what the scripts say.
        let names = input.inventory.karpenter_groups().into_iter().map(|group| group.name.clone());
        let scripts: Scripts = names.map(|name| (name, String::new())).collect();
        let pairs = karpenter_kops::generate(&input.inventory, &input.answers, &scripts)?;
        let live = LiveCluster::connect().await?.look().await?;
        let reasons = live_refusals(&input.inventory, &pairs, &live);
        for reason in &reasons {
            eprintln!("Error: {reason}");
        }
        if !reasons.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
    }
    let groups = input.inventory.karpenter_groups();
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    let managed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    crate::print(
        format!("{} is valid; managed by Karpenter: {managed}\n", input.inventory.cluster.name).as_bytes(),
    )
}
