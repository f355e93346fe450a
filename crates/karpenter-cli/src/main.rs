//! The `karpenter` program: reads the command line, calls the libraries, prints.
//!
//! No decision is made here. Each command is one file; start at [`Command`].

mod arguments;
mod explain;
mod measure;
mod solve;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

/// The exit code for input that cannot be used, as for a wrong command line.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let finished = match arguments.command {
        Command::Solve(arguments) => solve::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "karpenter", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
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

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
