//! Logs of the controller: one JSON object a line, with the keys that upstream's logs have.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::sync::Mutex;

use anyhow::Context as _;
use karpenter_api::options::{LogLevel, Options};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Begins to log as the options say.
pub(super) fn begin(options: &Options) -> anyhow::Result<()> {
    let level = match options.log_level {
        LogLevel::Debug => "karpenter=debug,info",
        LogLevel::Info => "info",
        LogLevel::Error => "error",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .event_format(Line { dry_run: options.dry_run })
        .with_writer(writer(&options.log_output_paths)?)
        .init();
    Ok(())
}

/// Where lines go: the first of the given places, which is what a container's log is made of.
fn writer(paths: &str) -> anyhow::Result<BoxMakeWriter> {
    Ok(match paths.split(',').map(str::trim).find(|path| !path.is_empty()).unwrap_or("stdout") {
        "stdout" => BoxMakeWriter::new(io::stdout),
        "stderr" => BoxMakeWriter::new(io::stderr),
        path => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("opening {path} of --log-output-paths"))?;
            BoxMakeWriter::new(Mutex::new(file))
        }
    })
}

struct Line {
    /// Then every line says that nothing of what it tells was done.
    dry_run: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = Map::new();
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("time".to_owned(), format!("{:.3}", jiff::Timestamp::now()).into());
        line.insert("logger".to_owned(), "controller".into());
        line.insert("message".to_owned(), fields.message.into());
        line.insert("commit".to_owned(), env!("KARPENTER_COMMIT").into());
        if self.dry_run {
            line.insert("dry-run".to_owned(), true.into());
        }
        line.append(&mut fields.others);
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The parts of a log line.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        // Rust's names have no dashes, upstream's keys do.
        self.others.insert(field.name().replace('_', "-"), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.put(field, format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}
