//! Coverage-guided fuzzing of everything that reads what others wrote. One program; `KARPENTER_FUZZ` names the parser.
//!
//! `cargo xtask fuzz` builds it with coverage counters and runs every parser for a while. A parser is in [`PARSERS`] with a few texts it
//! accepts, from which the fuzzer starts. None may panic, overflow, or fail to end; what it returns is its own tests' business.
#![no_main]

mod clouds;
mod kubernetes;
mod texts;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// Reads bytes that came from outside.
type Parser = fn(&[u8]);

/// Every parser by name.
const PARSERS: &[(&str, Parser)] = &[
    ("alibabacloud-answers", clouds::alibabacloud_answers),
    ("alibabacloud-messages", clouds::alibabacloud_messages),
    ("api-requests", kubernetes::api_requests),
    ("aws-answers", clouds::aws_answers),
    ("aws-messages", clouds::aws_messages),
    ("cloud-description", clouds::cloud_description),
    ("durations", texts::durations),
    ("instance-types-file", clouds::instance_types_file),
    ("kops", clouds::kops),
    ("options", texts::options),
    ("quantities", texts::quantities),
    ("resources", kubernetes::resources),
    ("scenarios", kubernetes::scenarios),
    ("schedules", texts::schedules),
];

static CHOSEN: OnceLock<Parser> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("KARPENTER_FUZZ").unwrap_or_default();
        if name == "list" {
            PARSERS.iter().for_each(|(name, _)| println!("{name}"));
            std::process::exit(0);
        }
        let found = PARSERS.iter().find(|(known, _)| *known == name);
        let Some((_, parser)) = found else {
            eprintln!("KARPENTER_FUZZ is {name:?}; set it to one of those that KARPENTER_FUZZ=list prints");
            std::process::exit(2);
        };
        let _ = CHOSEN.set(*parser);
    },
    |data: &[u8]| {
        if let Some(parser) = CHOSEN.get() {
            parser(data);
        }
    }
);
