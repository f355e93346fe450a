//! `karpenter kops apply`: the objects of the groups into the cluster, and out of it when their groups are gone.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use karpenter_api::yaml::to_yaml;
use karpenter_kops::{ApplyPlan, Live, LiveCluster, Outcome, Prune, identity, line_diff, plan};
use serde_json::Value;

use super::input::{Input, InputArguments};
use crate::say;

#[derive(Args, Debug)]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    input: InputArguments,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "watch")]
    dry_run: bool,
    /// Go on and apply what changes in the files or the state store, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Seconds between two looks at the files or the state store
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Remove objects whose InstanceGroup is gone without asking
    #[arg(long, short = 'y')]
    yes: bool,
}

pub(super) async fn run(arguments: &ApplyArguments) -> anyhow::Result<ExitCode> {
    let cluster = LiveCluster::connect().await?;
    if !arguments.watch {
        return once(arguments, &cluster).await;
    }
    loop {
        // What goes wrong once may go right when the state store or the cluster have changed.
        if let Err(error) = once(arguments, &cluster).await {
            say(format_args!("karpenter: {error:#}"));
        }
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(Duration::from_secs(arguments.interval)) => {}
        }
    }
}

async fn once(arguments: &ApplyArguments, cluster: &LiveCluster) -> anyhow::Result<ExitCode> {
    let input = Input::read(&arguments.input).await?;
    let pairs = super::pairs_of(&input, &arguments.input).await?;
    let live = cluster.look().await?;
    let mut plan = match plan(&input.inventory, &pairs, &live, input.kops_version) {
        Ok(plan) => plan,
        Err(reasons) => bail!("nothing was applied: {}", reasons.join("; ")),
    };
    if arguments.dry_run {
        return show(cluster, &plan, &live).await;
    }
    if !plan.prune.is_empty() && !arguments.yes && (arguments.watch || !confirmed(&plan.prune)?) {
        say("not removed: confirm, or give --yes");
        plan.prune.clear();
    }
    for ((kind, name), outcome) in cluster.carry_out(&plan, &live).await? {
        let verb = match outcome {
            Outcome::Created => "created",
            Outcome::Configured => "configured",
            // Whoever follows a store wants to hear of changes only.
            Outcome::Unchanged if arguments.watch => continue,
            Outcome::Unchanged => "unchanged",
            Outcome::Pruned => "pruned",
        };
        say(format_args!("{} {verb}", address(&kind, &name)));
    }
    Ok(ExitCode::SUCCESS)
}

fn address(kind: &str, name: &str) -> String {
    format!("{}/{name}", kind.to_lowercase())
}

/// Prints what would change, as the cluster itself would have it.
async fn show(cluster: &LiveCluster, plan: &ApplyPlan, live: &Live) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for after in cluster.preview(plan).await? {
        let (kind, name) = identity(&after);
        let before = live.objects.iter().find(|before| identity(before) == (kind, name));
        let verb = if before.is_some() { "changed" } else { "created" };
        let difference = line_diff(&before.map(readable).unwrap_or_default(), &readable(&after));
        if difference.is_empty() {
            writeln!(text, "{} unchanged", address(kind, name))?;
        } else {
            write!(text, "{} would be {verb}:\n{difference}", address(kind, name))?;
        }
    }
    text.push_str(&losses(&plan.prune));
    crate::print(text.as_bytes())
}

/// What people look at: not what the server notes for itself.
fn readable(object: &Value) -> String {
    let metadata = &object["metadata"];
    let mut shown = serde_json::json!({"metadata": {"labels": metadata["labels"]}, "spec": object["spec"]});
    if !metadata["annotations"].is_null() {
        shown["metadata"]["annotations"] = metadata["annotations"].clone();
    }
    to_yaml(&shown)
}

fn losses(prune: &[Prune]) -> String {
    let line = |prune: &Prune| {
        let (kind, name) = identity(&prune.object);
        let nodes = match prune.nodes.as_slice() {
            [] => String::new(),
            nodes => format!(", and with it {} nodes: {}", nodes.len(), nodes.join(", ")),
        };
        format!("{} would be removed, its InstanceGroup is gone{nodes}\n", address(kind, name))
    };
    prune.iter().map(line).collect::<Vec<_>>().concat()
}

/// Asks whether the objects, and the nodes with them, may go.
fn confirmed(prune: &[Prune]) -> io::Result<bool> {
    let mut output = io::stdout().lock();
    write!(output, "{}Remove them? [y/N] ", losses(prune))?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
