//! The command line of `karpenter controller`: upstream's flags and environment variables, from the one table of options.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, FromArgMatches, value_parser};
use karpenter_api::Provider;
use karpenter_api::options::{
    ALIBABA_CLOUD_OPTIONS, AWS_OPTIONS, AlibabaCloudOptions, AwsOptions, KWOK_OPTIONS, KwokOptions, OPTIONS,
    OptionError, OptionSpec, Options, Source, Warning,
};

use crate::arguments::provider_names;

/// Options of providers; which of them count follows from the provider.
const OF_PROVIDERS: [&[OptionSpec]; 3] = [KWOK_OPTIONS, AWS_OPTIONS, ALIBABA_CLOUD_OPTIONS];

/// What was given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ControllerArguments {
    /// Where machines come from.
    provider: Provider,
    /// Where to find the cluster, if not in the usual places.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The options that were given, as `--name=value`.
    flags: Vec<String>,
}

/// Options of one run.
pub(super) struct Settings {
    pub(super) options: Options,
    pub(super) provider: ProviderOptions,
    /// Whether somebody chose how long pods are collected.
    pub(super) batching_is_chosen: bool,
    pub(super) warnings: Vec<Warning>,
}

/// Where machines come from, and what that provider is told.
pub(super) enum ProviderOptions {
    Kwok(KwokOptions),
    Aws(AwsOptions),
    AlibabaCloud(AlibabaCloudOptions),
}

impl ControllerArguments {
    /// Reads flags, then environment, then defaults.
    pub(super) fn settings(&self) -> Result<Settings, OptionError> {
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let own = options_of(self.provider);
        let mut source = Source::new(&self.flags, &env, &[OPTIONS, own])?;
        let mut options = Options::read(&mut source)?;
        options.normalize();
        let provider = match self.provider {
            Provider::Kwok => ProviderOptions::Kwok(KwokOptions::read(&mut source)?),
            Provider::Aws => ProviderOptions::Aws(AwsOptions::read(&mut source)?),
            Provider::AlibabaCloud => ProviderOptions::AlibabaCloud(AlibabaCloudOptions::read(&mut source)?),
        };
        let batching = |spec: &&OptionSpec| spec.flag.starts_with("batch-");
        let batching_is_chosen = OPTIONS.iter().filter(batching).any(|spec| source.is_given(spec));
        Ok(Settings { options, provider, batching_is_chosen, warnings: source.into_warnings() })
    }
}

fn options_of(provider: Provider) -> &'static [OptionSpec] {
    match provider {
        Provider::Kwok => KWOK_OPTIONS,
        Provider::Aws => AWS_OPTIONS,
        Provider::AlibabaCloud => ALIBABA_CLOUD_OPTIONS,
    }
}

/// Every option there is; what several providers have is listed once.
fn all_options() -> Vec<&'static OptionSpec> {
    let mut all: Vec<&'static OptionSpec> = OPTIONS.iter().collect();
    for spec in OF_PROVIDERS.into_iter().flatten() {
        if all.iter().all(|known| known.flag != spec.flag) {
            all.push(spec);
        }
    }
    all
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
            .value_parser(provider_names())
            .help("Where machines come from");
        let kubeconfig = Arg::new("kubeconfig")
            .long("kubeconfig")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(
                "The cluster's kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's service account]",
            );
        let options = all_options().into_iter().map(argument);
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
        let provider = matches.get_one::<Provider>("provider").copied().unwrap_or(Provider::Kwok);
        Ok(Self {
            provider,
            kubeconfig: matches.get_one::<PathBuf>("kubeconfig").cloned(),
            flags: all_options().into_iter().filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
