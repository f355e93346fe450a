//! `cargo xtask aws-catalogue`: derives the catalogue that is compiled into the AWS provider.
//!
//! EC2's own answers stand in the Python package moto, current prices, bandwidths and branch interfaces in upstream's Go module, regional
//! prices and spot prices in the Go module ec2-instances-info. Versions are fixed here, so the same file comes out on every machine. What
//! is made of them is said in the `README.md` beside the file.

mod prices;
mod sources;
mod types;

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::workspace::Workspace;
use prices::PriceBook;
use sources::Sources;

const DATA: &str = "crates/karpenter-aws-catalogue/data";

/// Derives the file and writes it with the licences of what it was derived from.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let sources = Sources::fetch()?;
    let text = derive(&sources)?;
    let data = workspace.root().join(DATA);
    std::fs::create_dir_all(&data).context("making the folder of the catalogue")?;
    let file = data.join("catalogue.gz");
    std::fs::write(&file, compressed(&text)?).context("writing the catalogue")?;
    for (name, licence) in sources.licences()? {
        std::fs::write(data.join(name), licence).with_context(|| format!("writing {name}"))?;
    }
    let size = std::fs::metadata(&file).context("measuring the catalogue")?.len();
    println!("{}: {} bytes, {} uncompressed", file.display(), size, text.len());
    Ok(true)
}

/// One line about the types, then one line for each region.
fn derive(sources: &Sources) -> Result<String> {
    let raw = sources.instance_types()?;
    let types: BTreeMap<&str, Value> =
        raw.iter().map(|(name, described)| (name.as_str(), types::facts(name, described))).collect();
    let book = PriceBook::new(sources.current_prices()?, &sources.old_prices()?);
    let mut regions: Vec<String> = sources.regions()?;
    let offered = regions.len();
    regions.extend(book.regions_of_prices_only());
    let head = json!({
        "types": types.values().collect::<Vec<_>>(),
        "bandwidth_mbps": sources.bandwidths()?,
        "vpc_limits": sources.vpc_limits()?,
        "regions": regions,
    });
    let mut text = serde_json::to_string(&head)?;
    text.push('\n');
    for (index, region) in regions.iter().enumerate() {
        let zones = if index < offered { sources.zones(region)? } else { Vec::new() };
        let line = serde_json::to_string(&book.region(region, &zones, &types))?;
        text.extend([region, " ", &line, "\n"]);
    }
    Ok(text)
}

/// No name and no time in the header: the same text is the same bytes.
fn compressed(text: &str) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().write(Vec::new(), Compression::best());
    writer.write_all(text.as_bytes())?;
    Ok(writer.finish()?)
}
