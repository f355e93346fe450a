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
    groups: BTreeMap<String, Vec<u64>>,
}

pub(crate) async fn run(arguments: &Arguments, ours: &Side, real: &Side) -> Result<bool> {
    let library = Library::read()?;
    let accepted = accepted::read()?;
    let days = days().context("reading the clock")?;
    let mut report = Report::default();
    let mut number = arguments.script.unwrap_or(0);
    while report.requests < arguments.requests {
        let script = families::script(
            &library,
            arguments.seed,
            number,
            &arguments.prefix,
            arguments.family.as_deref(),
        );
        one(arguments, ours, real, &script, number, &accepted, &days, &mut report)
            .await
            .with_context(|| format!("script {number} of seed {} ({})", arguments.seed, script.family))?;
        report.scripts += 1;
        if arguments.script.is_some() {
            break;
        }
        number += 1;
    }
    let mut groups: Vec<_> = report.groups.iter().collect();
    groups.sort_by_key(|(_, scripts)| std::cmp::Reverse(scripts.len()));
    if !groups.is_empty() {
        println!("\nscripts with a difference, by what differs first:");
    }
    for (group, scripts) in groups {
        let some: Vec<String> = scripts.iter().take(5).map(u64::to_string).collect();
        println!("{:>5}  {group}  [{}]", scripts.len(), some.join(" "));
    }
    for (reason, count) in &report.accepted {
        println!("accepted {count} times: {reason}");
    }
    println!(
        "\nseed {}: {} requests in {} scripts, {} scripts differ",
        arguments.seed, report.requests, report.scripts, report.different
    );
    Ok(report.different == 0)
}

/// Runs one script on both servers up to the first difference.
#[expect(clippy::too_many_arguments, reason = "the one place where everything meets")]
async fn one(
    arguments: &Arguments,
    ours: &Side,
    real: &Side,
    script: &Script,
    number: u64,
    accepted: &[Accepted],
    days: &[String],
    report: &mut Report,
) -> Result<()> {
    let mut sessions = (Session::new(ours), Session::new(real));
    let mut normalizers = (Normalizer::new(days.to_vec()), Normalizer::new(days.to_vec()));
    for (index, step) in script.steps.iter().enumerate() {
        let (left, right) = futures::join!(sessions.0.perform(step), sessions.1.perform(step));
        let (left, right) = (
            left.with_context(|| format!("ours, step {index}: {}", title(step)))?,
            right.with_context(|| format!("the real one, step {index}: {}", title(step)))?,
        );
        report.requests += usize::from(!matches!(step, Step::Drain { .. }));
        let normal = (normalizers.0.normalize(step, &left), normalizers.1.normalize(step, &right));
        if arguments.script.is_some() {
            print_step(script, index, step, &left, &right);
        }
        let (known, mut found): (Vec<_>, Vec<_>) = differences(&normal.0, &normal.1)
            .into_iter()
            .partition(|difference| accepted.iter().any(|entry| entry.covers(&title(step), difference)));
        for difference in known {
            let entry = accepted.iter().find(|entry| entry.covers(&title(step), &difference));
            *report
                .accepted
                .entry(entry.map(|entry| entry.reason.clone()).unwrap_or_default())
                .or_default() += 1;
        }
        if found.is_empty() {
            continue;
        }
        // The code says most, then the message.
        found.sort_by_key(|difference| (difference.path != "/code", difference.path != "/body/message"));
        report.groups.entry(group(&arguments.prefix, step, &found)).or_default().push(number);
        report.different += 1;
        if report.different <= arguments.show {
            print_difference(arguments.seed, number, script, index, step, &found);
        }
        if arguments.script.is_none() {
            return Ok(());
        }
    }
    Ok(())
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
