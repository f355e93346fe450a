//! The run: scripts one after the other, each on both servers at once, and the report.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::Arguments;
use crate::accepted::{self, Accepted, shown};
use crate::compare::{Difference, differences};
use crate::families::{self, Library};
use crate::normal::Normalizer;
use crate::script::{Body, Request, Script, Step};
use crate::side::{Answer, Session, Side};

/// How many places of one answer are printed.
const PLACES_SHOWN: usize = 12;
/// How much of a value is printed.
const VALUE_SHOWN: usize = 600;

/// What a run has found.
#[derive(Default)]
struct Report {
    requests: usize,
    scripts: usize,
    /// Accepted differences by reason.
    accepted: BTreeMap<String, usize>,
    different: usize,
    /// Scripts that differ, by what the first difference looks like.
    groups: BTreeMap<String, Vec<String>>,
}

/// A run on two servers.
struct Run<'r> {
    arguments: &'r Arguments,
    ours: &'r Side,
    real: &'r Side,
    accepted: Vec<Accepted>,
    days: Vec<String>,
    report: Report,
}

/// Runs the scripts that the arguments ask for and prints what differs; `false` when something does.
pub(crate) async fn run(arguments: &Arguments, ours: &Side, real: &Side) -> Result<bool> {
    let (accepted, days) = (accepted::read()?, days().context("reading the clock")?);
    let mut run = Run { arguments, ours, real, accepted, days, report: Report::default() };
    run.cases().await?;
    run.chance().await?;
    run.print();
    Ok(run.report.different == 0)
}

impl Run<'_> {
    /// Sends the cases of Karpenter's definitions.
    async fn cases(&mut self) -> Result<()> {
        if self.arguments.family.as_deref().is_some_and(|family| family != families::CASES) {
            return Ok(());
        }
        if self.arguments.family.is_none() && self.arguments.script.is_some() {
            return Ok(());
        }
        for (number, script) in (0..).zip(families::cases(&self.arguments.prefix)?) {
            if self.arguments.script.is_none_or(|wanted| wanted == number) {
                self.script(&script, number).await?;
            }
        }
        Ok(())
    }

    /// Sends scripts written by chance until there were enough requests.
    async fn chance(&mut self) -> Result<()> {
        let arguments = self.arguments;
        if arguments.family.as_deref() == Some(families::CASES) {
            return Ok(());
        }
        let library = Library::read()?;
        let mut number = arguments.script.unwrap_or(0);
        while self.report.requests < arguments.requests {
            let family = arguments.family.as_deref();
            let script = families::script(&library, arguments.seed, number, &arguments.prefix, family);
            self.script(&script, number).await?;
            if arguments.script.is_some() {
                break;
            }
            number += 1;
        }
        Ok(())
    }

    /// Runs one script on both servers up to the first difference.
    async fn script(&mut self, script: &Script, number: u64) -> Result<()> {
        self.report.scripts += 1;
        let mut sessions = (Session::new(self.ours), Session::new(self.real));
        let mut normalizers = (Normalizer::new(self.days.clone()), Normalizer::new(self.days.clone()));
        for (index, step) in script.steps.iter().enumerate() {
            let place = || format!("step {index} of {} script {number}: {}", script.family, title(step));
            let (left, right) = futures::join!(sessions.0.perform(step), sessions.1.perform(step));
            let left = left.with_context(|| format!("ours, {}", place()))?;
            let right = right.with_context(|| format!("the real one, {}", place()))?;
            self.report.requests += usize::from(!matches!(step, Step::Drain { .. }));
            let normal = (normalizers.0.normalize(step, &left), normalizers.1.normalize(step, &right));
            if self.arguments.script.is_some() {
                print_step(script, index, step, &left, &right);
            }
            let (ends, found) = self.accept(step, differences(&normal.0, &normal.1));
            let differs = !found.is_empty();
            if differs {
                self.note(script, number, index, found);
            }
            // One script that is asked for is shown to its end.
            if (differs || ends) && self.arguments.script.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes out the differences that are accepted, and returns whether one of them ends the script.
    fn accept(&mut self, step: &Step, all: Vec<Difference>) -> (bool, Vec<Difference>) {
        let request = title(step);
        let mut ends = false;
        let mut found = Vec::new();
        for difference in all {
            match self.accepted.iter().find(|entry| entry.covers(&request, &difference)) {
                Some(entry) => {
                    ends |= entry.ends;
                    *self.report.accepted.entry(entry.reason.clone()).or_default() += 1;
                }
                None => found.push(difference),
            }
        }
        // Where one difference ends a script, the others of the answer follow from it.
        if ends {
            found.clear();
        }
        (ends, found)
    }

    /// Counts a script that differs, and prints how.
    fn note(&mut self, script: &Script, number: u64, index: usize, mut found: Vec<Difference>) {
        // The code says most, then the message.
        found.sort_by_key(|difference| (difference.path != "/code", difference.path != "/body/message"));
        let step = &script.steps[index];
        let name = format!("{} {number}", script.family);
        self.report.groups.entry(group(&self.arguments.prefix, step, &found)).or_default().push(name);
        self.report.different += 1;
        if self.report.different <= self.arguments.show {
            print_difference(self.arguments.seed, number, script, index, step, &found);
        }
    }

    /// Prints what the whole run has found.
    fn print(&self) {
        let report = &self.report;
        let mut groups: Vec<_> = report.groups.iter().collect();
        groups.sort_by_key(|(_, scripts)| std::cmp::Reverse(scripts.len()));
        if !groups.is_empty() {
            println!("\nscripts with a difference, by what differs first:");
        }
        for (group, scripts) in groups {
            let some: Vec<&str> = scripts.iter().take(5).map(String::as_str).collect();
            println!("{:>5}  {group}  [{}]", scripts.len(), some.join(", "));
        }
        for (reason, count) in &report.accepted {
            println!("accepted {count} times: {reason}");
        }
        let differences: usize = report.accepted.values().sum();
        println!(
            "\nseed {}: {} requests in {} scripts, {} scripts differ, {differences} differences are listed",
            self.arguments.seed, report.requests, report.scripts, report.different
        );
    }
}

fn title(step: &Step) -> String {
    match step {
        Step::Send(request) | Step::Watch(request) => format!("{} {}", request.method, request.path),
        Step::Drain { watch, .. } => format!("events of the watch of step {watch}"),
        Step::Await(condition) => format!("{condition:?}"),
    }
}

fn body(request: &Request) -> String {
    match &request.body {
        Body::Empty => String::new(),
        Body::Text(text) => text.clone(),
        Body::Json(value) => value.to_string(),
        Body::Edited { step, edits } => {
            let edits: Vec<String> =
                edits.iter().map(|(path, value)| format!("{path}={}", shown(value.as_ref()))).collect();
            format!("the answer of step {step} with {}", edits.join(", "))
        }
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= VALUE_SHOWN {
        return text.to_owned();
    }
    format!("{}… ({} bytes)", text.chars().take(VALUE_SHOWN).collect::<String>(), text.len())
}

fn print_difference(
    seed: u64,
    number: u64,
    script: &Script,
    index: usize,
    step: &Step,
    found: &[Difference],
) {
    println!("\n--- seed {seed} script {number} ({}) step {index}: {}", script.family, title(step));
    if let Step::Send(request) | Step::Watch(request) = step {
        for (name, value) in &request.headers {
            println!("    {name}: {value}");
        }
        println!("    {}", cut(&body(request)));
    }
    for difference in found.iter().take(PLACES_SHOWN) {
        println!("  {}", difference.path);
        println!("    ours: {}", cut(&shown(difference.ours.as_ref())));
        println!("    real: {}", cut(&shown(difference.real.as_ref())));
    }
    if found.len() > PLACES_SHOWN {
        println!("  and {} more", found.len() - PLACES_SHOWN);
    }
}

fn print_step(script: &Script, index: usize, step: &Step, ours: &Answer, real: &Answer) {
    println!("\n=== {} step {index}: {}", script.family, title(step));
    if let Step::Send(request) | Step::Watch(request) = step {
        println!("    {:?}\n    {}", request.headers, body(request));
    }
    println!("  ours {} {:?} {}", ours.code, ours.headers, ours.body);
    println!("  real {} {:?} {}", real.code, real.headers, real.body);
}

/// What a difference looks like, without the names and numbers of one script.
fn group(prefix: &str, step: &Step, found: &[Difference]) -> String {
    let method = match step {
        Step::Send(request) => {
            let path = request.path.split('?').next().unwrap_or_default();
            let kind: Vec<&str> = path
                .split('/')
                .filter(|part| {
                    !part.is_empty()
                        && !part.trim_start_matches(prefix).starts_with(|c: char| c.is_ascii_digit())
                })
                .collect();
            format!("{} {}", request.method, kind.join("/"))
        }
        Step::Watch(_) => "WATCH".to_owned(),
        Step::Drain { .. } => "EVENTS".to_owned(),
        Step::Await(_) => "AWAIT".to_owned(),
    };
    let first = &found[0];
    let short = |value: &Option<Value>| shown(value.as_ref()).chars().take(70).collect::<String>();
    let path: Vec<&str> =
        first.path.split('/').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part }).collect();
    format!("{method} {} ours={} real={}", path.join("/"), short(&first.ours), short(&first.real))
}

/// Yesterday, today and tomorrow as dates.
fn days() -> Result<Vec<String>> {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let days = [today.yesterday().context("yesterday")?, today, today.tomorrow().context("tomorrow")?];
    Ok(days.iter().map(ToString::to_string).collect())
}
