//! The benchmark files: stored ones are packed in the repository, the others are generated. Both are written to the
//! build folder, where the programs under test read them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::generate;

/// One benchmark by name and the file it was written to.
#[derive(Clone, Debug)]
pub(crate) struct BenchFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Names of all benchmarks in the order in which they are reported: stored ones by series and size, then generated ones.
pub(crate) fn names() -> Result<Vec<String>> {
    let folder = stored_folder();
    let mut stored = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        stored.extend(name.strip_suffix(".json.gz").map(str::to_owned));
    }
    stored.sort_by_key(|name| series_and_size(name));
    stored.extend(generate::names());
    Ok(stored)
}

/// Whether a benchmark asks what can be disrupted, not where pods go.
pub(crate) fn is_disruption(name: &str) -> bool {
    name.starts_with("cons-") || name.starts_with("disruption-")
}

/// The benchmarks a person asked for, or all of them but those about disruption, which are asked for by name. A name
/// also stands for the series that begins with it.
pub(crate) fn select(all: &[String], asked: &[String]) -> Result<Vec<String>> {
    if asked.is_empty() {
        return Ok(all.iter().filter(|name| !is_disruption(name)).cloned().collect());
    }
    let mut selected = Vec::new();
    for wanted in asked {
        let exact: Vec<&String> = all.iter().filter(|name| *name == wanted).collect();
        let series: Vec<&String> =
            all.iter().filter(|name| name.starts_with(&format!("{wanted}-"))).collect();
        let found = if exact.is_empty() { series } else { exact };
        if found.is_empty() {
            bail!("no benchmark is called {wanted}; `cargo xtask bench --list` prints their names");
        }
        selected.extend(found.into_iter().cloned());
    }
    Ok(selected)
}

/// Writes a benchmark's scenario into `folder`.
pub(crate) fn write(name: &str, folder: &Path) -> Result<BenchFile> {
    let path = folder.join(format!("{name}.json"));
    let text = if packed(name).is_file() {
        unpack(name)?
    } else {
        serde_json::to_vec(&generate::scenario(name, stored)?)?
    };
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(BenchFile { name: name.to_owned(), path })
}

/// A stored scenario.
pub(crate) fn stored(name: &str) -> Result<Value> {
    serde_json::from_slice(&unpack(name)?).with_context(|| format!("reading the stored scenario {name}"))
}

fn unpack(name: &str) -> Result<Vec<u8>> {
    let path = packed(name);
    let file = fs::File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let mut text = Vec::new();
    GzDecoder::new(file).read_to_end(&mut text).with_context(|| format!("unpacking {}", path.display()))?;
    Ok(text)
}

fn packed(name: &str) -> PathBuf {
    stored_folder().join(format!("{name}.json.gz"))
}

fn stored_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// `large-10000` sorts after `large-1000` and `cons-100p` by its number.
fn series_and_size(name: &str) -> (String, u64, String) {
    let (series, size) = name.rsplit_once('-').unwrap_or((name, ""));
    let digits: String = size.chars().take_while(char::is_ascii_digit).collect();
    (series.to_owned(), digits.parse().unwrap_or(0), size.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_files_come_in_the_order_of_their_size() {
        let names = names().expect("the folder is there");
        let bench: Vec<&String> = names.iter().filter(|name| name.starts_with("bench-")).collect();
        assert_eq!(
            bench,
            ["bench-500", "bench-1000", "bench-2000", "bench-5000", "bench-10000", "bench-20000"]
        );
    }

    #[test]
    fn a_name_stands_for_itself_or_for_its_series() {
        let all = ["warm", "warm-small", "large-1", "large-2"].map(String::from);
        let select = |asked: &str| select(&all, &[asked.to_owned()]);
        assert_eq!(select("warm").expect("known"), ["warm"]);
        assert_eq!(select("large").expect("known"), ["large-1", "large-2"]);
        assert!(select("lar").is_err());
    }

    #[test]
    fn every_stored_file_is_a_scenario() {
        for name in names().expect("the folder is there").iter().filter(|name| packed(name).is_file()) {
            assert!(stored(name).expect("it unpacks")["instanceTypes"].is_array(), "{name}");
        }
    }
}
