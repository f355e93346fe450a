//! The `karpenter` program: reads the command line, calls the libraries, prints.
//!
//! No decision is made here. Each command is one file; start at [`Command`].

mod apiserver;
mod arguments;
mod cloud;
mod controller;
mod crds;
mod explain;
mod kops;
mod lint;
mod local;
mod measure;
mod simulate;
mod solve;
mod webhook;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

/// The exit code for input that cannot be used, as for a wrong command line.
const BAD_INPUT: u8 = 2;

/// Decisions and the reading of JSON are made of small allocations; beside the C library's this allocator saves a tenth
/// of a controller's work and a fifth of a simulation's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(command_line());
    let finished = match arguments.command {
        Command::Solve(arguments) => solve::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Crds(arguments) => crds::run(&arguments),
        Command::Apiserver(arguments) => apiserver::run(&arguments),
        Command::Controller(arguments) => controller::run(&arguments),
        Command::Webhook(arguments) => webhook::run(&arguments),
        Command::Local(arguments) => local::run(arguments),
        Command::Kops(command) => kops::run(&command),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "karpenter", &mut script);
            print(&script)
        }
    };
    finished.unwrap_or_else(|error| {
        if is_closed_pipe(&error) {
            // Whoever read our output has seen enough.
            return ExitCode::SUCCESS;
        }
        eprintln!("karpenter: {error:#}");
        ExitCode::FAILURE
    })
}

/// The words of the command line; the controller's flags may be written as Go's.
fn command_line() -> Vec<String> {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|command| command == "controller") {
        words.into_iter().map(controller::with_two_dashes).collect()
    } else {
        words
    }
}

/// Writes a whole document to standard output.
fn print(text: &[u8]) -> anyhow::Result<ExitCode> {
    let mut output = io::stdout().lock();
    output.write_all(text)?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line while the program goes on; a reader who has gone away is no reason to stop.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
