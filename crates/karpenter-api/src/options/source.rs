//! Where option values come from: the command line, then the environment, then the defaults.

use std::collections::BTreeMap;

use super::{OptionSpec, OptionValue};

/// Why options cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// `-h` or `--help` was given.
    #[error("help was asked for")]
    Help,
    /// The command line has a flag no table knows.
    #[error("there is no flag --{flag}{}", suggestion.map(|flag| format!("; did you mean --{flag}?")).unwrap_or_default())]
    UnknownFlag {
        /// The flag as given, without dashes.
        flag: String,
        /// The known flag that is spelt most like it.
        suggestion: Option<&'static str>,
    },
    /// A flag stands at the end without its value.
    #[error("--{0} needs a value; write --{0}=VALUE")]
    MissingValue(&'static str),
    /// An argument looks like a flag and is none.
    #[error("{0:?} is not a flag; write --name or --name=value")]
    Malformed(String),
    /// The value of a flag or environment variable cannot be used.
    #[error("{name} has the value {value:?}, but {problem}")]
    Invalid {
        /// The flag with dashes, or the variable.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong with it, as a clause.
        problem: String,
    },
}

/// Something that was ignored and perhaps should not have been.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// An environment variable that cannot be read.
    #[error("{env} has the value {value:?}, but {problem}; the default {default:?} is used")]
    DefaultUsed {
        /// The variable.
        env: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, as a clause.
        problem: String,
        /// The value used instead.
        default: &'static str,
    },
    /// A remark about a value that was read.
    #[error("{name}: {remark}")]
    Remark {
        /// The flag with dashes, or the variable.
        name: String,
        /// The remark.
        remark: String,
    },
    /// Arguments after the first one that is not a flag.
    #[error("arguments from {0:?} on are ignored; write a switch as --name=false, not --name false")]
    ArgumentsIgnored(String),
}

/// Values given on the command line and in the environment.
pub struct Source<'e> {
    flags: BTreeMap<&'static str, String>,
    env: &'e dyn Fn(&str) -> Option<String>,
    warnings: Vec<Warning>,
}

impl<'e> Source<'e> {
    /// Takes the arguments apart by Go's rules, knowing the flags of these tables.
    ///
    /// # Errors
    /// Returns the first argument that is not a known flag with its value.
    pub fn new(
        args: &[String],
        env: &'e dyn Fn(&str) -> Option<String>,
        tables: &[&'static [OptionSpec]],
    ) -> Result<Self, OptionError> {
        let mut source = Self { flags: BTreeMap::new(), env, warnings: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some(body) = arg.strip_prefix('-').filter(|body| !body.is_empty() && arg != "--") else {
                let first_ignored = if arg == "--" { args.next() } else { Some(arg) };
                source.warnings.extend(first_ignored.map(|arg| Warning::ArgumentsIgnored(arg.clone())));
                break;
            };
            let body = body.strip_prefix('-').unwrap_or(body);
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            if name.is_empty() || name.starts_with('-') {
                return Err(OptionError::Malformed(arg.clone()));
            }
            let spec = find(name, tables)?;
            let value = match value {
                Some(value) => value,
                None if spec.is_switch => "true".to_owned(),
                None => args.next().ok_or(OptionError::MissingValue(spec.flag))?.clone(),
            };
            source.flags.insert(spec.flag, value);
        }
        Ok(source)
    }

    /// Reads one option.
    ///
    /// # Errors
    /// Returns the value that cannot be used.
    ///
    /// # Panics
    /// If the default in the table is not a value of the type, which a test of the table excludes.
    pub fn read<T: OptionValue>(&mut self, spec: &OptionSpec) -> Result<T, OptionError> {
        let mut remarks = Vec::new();
        let (name, text, outcome) = if let Some(text) = self.flags.get(spec.flag) {
            (format!("--{}", spec.flag), text.clone(), T::from_flag(text, &mut remarks))
        } else if let Some(text) = (self.env)(spec.env) {
            let outcome = T::from_env(&text, &mut remarks);
            match outcome {
                Err(problem) if T::ENV_FALLS_BACK => {
                    let (env, default) = (spec.env, spec.default);
                    self.warnings.push(Warning::DefaultUsed { env, value: text, problem, default });
                    return Ok(default_of(spec));
                }
                outcome => (spec.env.to_owned(), text, outcome),
            }
        } else {
            return Ok(default_of(spec));
        };
        let remark = |remark: String| Warning::Remark { name: name.clone(), remark };
        self.warnings.extend(remarks.into_iter().map(remark));
        outcome.map_err(|problem| OptionError::Invalid { name, value: text, problem })
    }

    /// Whether somebody gave the option, on the command line or in the environment.
    pub fn is_given(&self, spec: &OptionSpec) -> bool {
        self.flags.contains_key(spec.flag) || (self.env)(spec.env).is_some()
    }

    /// Returns what was ignored.
    pub fn into_warnings(self) -> Vec<Warning> {
        self.warnings
    }
}

fn default_of<T: OptionValue>(spec: &OptionSpec) -> T {
    T::from_flag(spec.default, &mut Vec::new()).expect("the default of an option is a value of its type")
}

fn find(name: &str, tables: &[&'static [OptionSpec]]) -> Result<&'static OptionSpec, OptionError> {
    if matches!(name, "h" | "help") {
        return Err(OptionError::Help);
    }
    let specs = || tables.iter().copied().flatten();
    if let Some(spec) = specs().find(|spec| spec.flag == name) {
        return Ok(spec);
    }
    let nearest = specs().map(|spec| (edit_distance(name, spec.flag), spec.flag)).min();
    let suggestion =
        nearest.filter(|(distance, _)| *distance <= SUGGESTION_DISTANCE_MAX).map(|(_, flag)| flag);
    Err(OptionError::UnknownFlag { flag: name.to_owned(), suggestion })
}

/// More changes than this make a different word, not a misspelling.
const SUGGESTION_DISTANCE_MAX: usize = 3;

fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, left_char) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right_char) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(left_char != *right_char);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[right.len()]
}
