//! Measures Kubernetes API servers side by side, all with the same client over TLS.
//!
//! ```text
//! cargo run --release -p karpenter-apiserver --example measure -- [--nodes N] [--pods N] \
//!     NAME=KUBECONFIG[,PID…] …
//! ```
//!
//! Each server is filled with nodes and pods, listed and watched; the processes named by their ids are asked for the
//! memory they hold and the processor time they used. Give an empty server: what is created is not removed. Without a
//! kubeconfig the server in this very process is measured without a network. `cargo xtask apiserver-figures` starts ours
//! and the real one and runs this program on them.

mod client;
mod in_process;
mod objects;
mod phases;
mod usage;

use std::error::Error;

use phases::{Figures, Load};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A server to measure.
struct Target {
    name: String,
    kubeconfig: String,
    processes: Vec<u32>,
}

impl Target {
    fn parse(text: &str) -> Outcome<Self> {
        let (name, rest) = text.split_once('=').ok_or("a server is given as NAME=KUBECONFIG,PID")?;
        let mut parts = rest.split(',');
        let kubeconfig = parts.next().unwrap_or_default().to_owned();
        let processes = parts.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), kubeconfig, processes })
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut load = Load { nodes: 10_000, pods: 100_000 };
    let mut targets = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or(format!("{argument} needs a number"));
        match argument.as_str() {
            "--nodes" => load.nodes = number()?.parse()?,
            "--pods" => load.pods = number()?.parse()?,
            text => targets.push(Target::parse(text)?),
        }
    }
    if targets.is_empty() {
        return in_process::run(load).await;
    }
    let mut columns = Vec::new();
    for target in &targets {
        eprintln!("measuring {}", target.name);
        columns.push(phases::run(target, load).await?);
    }
    print(&targets, &columns);
    Ok(())
}

/// Prints a table with a column for each server.
fn print(targets: &[Target], columns: &[Figures]) {
    let Some(first) = columns.first() else { return };
    let width = first.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    print!("| {:<width$} |", "");
    for target in targets {
        print!(" {:>20} |", target.name);
    }
    print!("\n|{}|", "-".repeat(width + 2));
    for _ in targets {
        print!("{}|", "-".repeat(22));
    }
    println!();
    for (row, (name, _)) in first.iter().enumerate() {
        print!("| {name:<width$} |");
        for column in columns {
            print!(" {:>20} |", column[row].1);
        }
        println!();
    }
}
