//! The command line of `karpenter controller`: upstream's flags and environment variables, from the one table of options.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, FromArgMatches, value_parser};
use karpenter_api::options::{
    KWOK_OPTIONS, KwokOptions, OPTIONS, OptionError, OptionSpec, Options, Source, Warning,
};

/// The providers whose controllers exist.
const PROVIDERS: [&str; 1] = ["kwok"];

/// What was given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ControllerArguments {
    /// Where to find the cluster, if not in the usual places.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The options that were given, as `--name=value`.
    flags: Vec<String>,
}

/// Options of one run.
pub(super) struct Settings {
    pub(super) options: Options,
    pub(super) kwok: KwokOptions,
    /// Whether somebody chose how long pods are collected.
    pub(super) batching_is_chosen: bool,
    pub(super) warnings: Vec<Warning>,
}

impl ControllerArguments {
    /// Reads flags, then environment, then defaults.
    pub(super) fn settings(&self) -> Result<Settings, OptionError> {
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut source = Source::new(&self.flags, &env, &[OPTIONS, KWOK_OPTIONS])?;
        let mut options = Options::read(&mut source)?;
        options.normalize();
        let kwok = KwokOptions::read(&mut source)?;
        let batching = |spec: &&OptionSpec| spec.flag.starts_with("batch-");
        let batching_is_chosen = OPTIONS.iter().filter(batching).any(|spec| source.is_given(spec));
        Ok(Settings { options, kwok, batching_is_chosen, warnings: source.into_warnings() })
    }
}

/// Go's flags may begin with one dash; ours, as everybody's, with two.
pub(crate) fn with_two_dashes(argument: String) -> String {
    let one_dash = argument.strip_prefix('-').is_some_and(|rest| rest.len() > 1 && !rest.starts_with('-'));
    if one_dash { format!("-{argument}") } else { argument }
}

impl clap::Args for ControllerArguments {
    fn augment_args(command: Command) -> Command {
        let provider = Arg::new("provider")
            .long("provider")
            .value_name("PROVIDER")
            .required(true)
            .value_parser(PROVIDERS)
            .help("Where machines come from");
        let kubeconfig = Arg::new("kubeconfig")
            .long("kubeconfig")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(
                "The cluster's kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's service account]",
            );
        let options = OPTIONS.iter().chain(KWOK_OPTIONS).map(argument);
        command.arg(provider).arg(kubeconfig).args(options)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(spec: &'static OptionSpec) -> Arg {
    let default =
        if spec.default.is_empty() { String::new() } else { format!(" [default: {}]", spec.default) };
    let argument = Arg::new(spec.flag)
        .long(spec.flag)
        .help(format!("{} [env: {}]{default}", spec.help.trim(), spec.env))
        .allow_hyphen_values(true);
    if spec.is_switch {
        argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
    } else {
        argument.num_args(1).value_name("VALUE")
    }
}

impl FromArgMatches for ControllerArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |spec: &'static OptionSpec| {
            let value = matches.get_one::<String>(spec.flag)?;
            Some(format!("--{}={value}", spec.flag))
        };
        Ok(Self {
            kubeconfig: matches.get_one::<PathBuf>("kubeconfig").cloned(),
            flags: OPTIONS.iter().chain(KWOK_OPTIONS).filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
