//! The packages the catalogue is derived from: where they are, and what stands in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{process, tools};

/// Apache-2.0. EC2's answers to `DescribeInstanceTypes` and `DescribeInstanceTypeOfferings`.
const MOTO: &str = "moto==5.2.5";
/// Apache-2.0. Prices, bandwidths, limits of the VPC.
const UPSTREAM: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";
/// Its data is that of ec2instances.info, MIT. Prices of all regions, spot prices.
const INSTANCES_INFO: &str = "github.com/cristim/ec2-instances-info@v0.0.0-20250528091325-32acf84f42eb";

/// Prices by region and type.
pub(super) type Prices = BTreeMap<String, BTreeMap<String, f64>>;

/// A zone and the types it has.
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) types: BTreeSet<String>,
}

/// A type in the older file that has all regions.
#[derive(Deserialize)]
pub(super) struct Priced {
    pub(super) instance_type: String,
    pub(super) pricing: BTreeMap<String, PricedRegion>,
}

#[derive(Deserialize)]
pub(super) struct PricedRegion {
    pub(super) linux: Option<PricedLinux>,
}

#[derive(Deserialize)]
pub(super) struct PricedLinux {
    #[serde(default)]
    pub(super) ondemand: Value,
    #[serde(default)]
    pub(super) spot: Vec<Value>,
}

/// The packages, unpacked.
pub(super) struct Sources {
    moto: PathBuf,
    upstream: PathBuf,
    instances_info: PathBuf,
}

impl Sources {
    /// Fetches what the cache does not hold.
    pub(super) fn fetch() -> Result<Self> {
        Ok(Self {
            moto: python_packages(MOTO)?,
            upstream: go_module(UPSTREAM)?,
            instances_info: go_module(INSTANCES_INFO)?,
        })
    }

    /// Licence files and notices that must accompany the data.
    pub(super) fn licences(&self) -> Result<[(&'static str, String); 4]> {
        let moto = self.moto.join(format!("{}.dist-info", MOTO.replace("==", "-")));
        let text = |path: PathBuf| {
            std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        let mit = text(self.instances_info.join("LICENSE"))?;
        Ok([
            ("LICENSE-moto", text(moto.join("licenses/LICENSE"))?),
            ("LICENSE-karpenter-provider-aws", text(self.upstream.join("LICENSE"))?),
            ("NOTICE-karpenter-provider-aws", text(self.upstream.join("NOTICE"))?),
            ("LICENSE-ec2-instances-info", mit.trim_end().to_owned() + "\n"),
        ])
    }

    /// EC2's description of every type.
    pub(super) fn instance_types(&self) -> Result<BTreeMap<String, Value>> {
        read_json(&self.resources().join("instance_types.json.gz"))
    }

    /// Regions whose offerings are known.
    pub(super) fn regions(&self) -> Result<Vec<String>> {
        let folder = self.resources().join("instance_type_offerings/availability-zone");
        let entries = folder.read_dir().with_context(|| format!("listing {}", folder.display()))?;
        let names: Vec<_> =
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
        let names = names.iter().filter_map(|name| name.to_str()?.strip_suffix(".json.gz"));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// The zones of a region. Which name goes with which id is seen from the types they have: the lists are the same.
    pub(super) fn zones(&self, region: &str) -> Result<Vec<Zone>> {
        let names = self.offerings("availability-zone", region)?;
        let mut ids = self.offerings("availability-zone-id", region)?;
        let zones = names.into_iter().map(|(name, types)| {
            let same = ids.iter().find(|(_, of_id)| **of_id == types).map(|(id, _)| id.clone());
            let id = same.with_context(|| format!("no zone id of {region} has the types of {name}"))?;
            ids.remove(&id);
            Ok(Zone { name, id, types })
        });
        zones.collect()
    }

    fn offerings(&self, kind: &str, region: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let path = self.resources().join(format!("instance_type_offerings/{kind}/{region}.json.gz"));
        let rows: Vec<BTreeMap<String, String>> = read_json(&path)?;
        let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in rows {
            let (Some(place), Some(name)) = (row.get("Location"), row.get("InstanceType")) else {
                bail!("{} has a row without type or location", path.display());
            };
            places.entry(place.clone()).or_default().insert(name.clone());
        }
        Ok(places)
    }

    fn resources(&self) -> PathBuf {
        self.moto.join("moto/ec2/resources")
    }

    /// Upstream's tables of on-demand prices: one commercial region, China, the US government.
    pub(super) fn current_prices(&self) -> Result<Prices> {
        let mut prices = Prices::new();
        for partition in ["aws", "aws_cn", "aws_us_gov"] {
            let text = self.generated(&format!("pricing/zz_generated.pricing_{partition}.go"))?;
            let mut region = String::new();
            for line in text.lines() {
                if let Some(name) = line.trim().strip_suffix(": {").and_then(quoted) {
                    name.clone_into(&mut region);
                    continue;
                }
                for (name, price) in line.split(',').filter_map(entry) {
                    let price = price.parse().with_context(|| format!("reading the price of {name}"))?;
                    prices.entry(region.clone()).or_default().insert(name.to_owned(), price);
                }
            }
        }
        Ok(prices)
    }

    /// Upstream's table of network bandwidths, in Mbit/s.
    pub(super) fn bandwidths(&self) -> Result<BTreeMap<String, u32>> {
        let text = self.generated("instancetype/zz_generated.bandwidth.go")?;
        let entries = text.lines().filter_map(|line| entry(line.trim().trim_end_matches(',')));
        entries
            .map(|(name, number)| {
                Ok((
                    name.to_owned(),
                    number.parse().with_context(|| format!("reading the bandwidth of {name}"))?,
                ))
            })
            .collect()
    }

    /// Upstream's table of what the VPC makes of a type.
    pub(super) fn vpc_limits(&self) -> Result<BTreeMap<String, Value>> {
        let text = self.generated("instancetype/zz_generated.vpclimits.go")?;
        let mut limits = BTreeMap::new();
        let (mut name, mut addresses, mut trunks) = ("", 0, false);
        for line in text.lines().map(str::trim) {
            if let Some(found) = line.strip_suffix(": {").and_then(quoted) {
                name = found;
            }
            let Some((key, value)) = line.trim_end_matches(',').split_once(':') else { continue };
            match (key, value.trim()) {
                ("IPv4PerInterface", value) => addresses = value.parse::<u32>().unwrap_or(0),
                ("IsTrunkingCompatible", value) => trunks = value == "true",
                ("BranchInterface", value) if !name.is_empty() => {
                    let branches = if trunks { value.parse::<u32>()? } else { 0 };
                    let limit = json!({ "ipv4_per_interface": addresses, "branch_interfaces": branches });
                    limits.insert(name.to_owned(), limit);
                }
                _ => {}
            }
        }
        Ok(limits)
    }

    fn generated(&self, name: &str) -> Result<String> {
        let path = self.upstream.join("pkg/providers").join(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// Prices of a year ago, of all regions.
    pub(super) fn old_prices(&self) -> Result<Vec<Priced>> {
        let path = self.instances_info.join("data/instances.json");
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("parsing {}", path.display()))
    }
}

/// `"m5.large": 0.096` as name and number.
fn entry(text: &str) -> Option<(&str, &str)> {
    let (name, number) = text.trim().split_once(':')?;
    let (name, number) = (quoted(name)?, number.trim_start());
    (name.contains('.') && number.starts_with(|first: char| first.is_ascii_digit())).then_some((name, number))
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut text = Vec::new();
    GzDecoder::new(BufReader::new(file)).read_to_end(&mut text)?;
    serde_json::from_slice(&text).with_context(|| format!("parsing {}", path.display()))
}

/// The folder of a Python package with nothing but itself in it.
fn python_packages(package: &str) -> Result<PathBuf> {
    let root = tools::cache()?.join(package.replace("==", "-"));
    let folder = root.join("packages");
    if folder.is_dir() {
        return Ok(folder);
    }
    println!("installing {package} into {}", root.display());
    let environment = root.join("python");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let unpacked = root.join("unpacked");
    let mut install = Command::new(environment.join("bin/pip"));
    install.args(["install", "--quiet", "--no-deps", "--no-compile", "--target"]).arg(&unpacked).arg(package);
    run(&mut install)?;
    std::fs::rename(&unpacked, &folder).context("moving the package into its place")?;
    Ok(folder)
}

/// The folder of a Go module, downloaded into go's own cache.
fn go_module(module: &str) -> Result<PathBuf> {
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", module]).current_dir(std::env::temp_dir());
    let text = process::output(&mut command)
        .with_context(|| format!("go could not download {module}: is the module proxy reachable?"))?;
    let answer: Value = serde_json::from_str(&text).context("reading what go printed")?;
    let folder = answer["Dir"].as_str().with_context(|| format!("go did not say where {module} is"))?;
    Ok(PathBuf::from(folder))
}

fn run(command: &mut Command) -> Result<()> {
    if !process::succeeds(command)? {
        bail!("{} failed: is the package registry reachable?", command.get_program().display());
    }
    Ok(())
}
