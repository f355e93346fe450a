//! Where the commands get a cluster, its groups, their scripts and the cloud's answers from.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use karpenter_aws_client::Client;
use karpenter_environment::SystemEnvironment;
use karpenter_kops::{
    Answers, CloudFacts, FileStore, Inventory, KopsVersion, Questions, Refusal, S3Store, Scripts, Source,
    StateStore, StoreError, ask, questions, read_cluster, read_scripts, validate, validate_version,
};

#[derive(Args, Debug)]
pub(crate) struct InputArguments {
    /// Files with the Cluster and its InstanceGroups; - reads standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required_unless_present = "name")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArguments,
    /// A file that says what the cloud would answer: images, SSM parameters; without it EC2 and SSM are asked
    ///
    /// docs/kops.md describes it.
    #[arg(long, value_name = "FILE")]
    cloud_facts: Option<PathBuf>,
    /// A folder with the bootstrap scripts: GROUP.sh, or laid out as in a state store; without it they are read from the
    /// state store
    #[arg(long, value_name = "DIR")]
    bootstrap_scripts: Option<PathBuf>,
    /// The version of kOps that runs the cluster [default: what the state store says]
    #[arg(long, value_name = "VERSION")]
    kops_version: Option<KopsVersion>,
}

#[derive(Args, Debug)]
pub(crate) struct StoreArguments {
    /// The state store: `file:///path` or `s3://bucket/path`
    #[arg(long, value_name = "URL", env = "KOPS_STATE_STORE")]
    pub(super) state: Option<String>,
    /// The cluster's name
    #[arg(long, value_name = "CLUSTER", env = "KOPS_CLUSTER_NAME")]
    pub(super) name: Option<String>,
}

impl StoreArguments {
    /// The store that was named, if one was.
    pub(super) async fn open(&self) -> anyhow::Result<Option<Box<dyn StateStore>>> {
        let Some(url) = &self.state else { return Ok(None) };
        if let Some(path) = url.strip_prefix("file://") {
            return Ok(Some(Box::new(FileStore::new(path))));
        }
        if url.starts_with("s3://") {
            return Ok(Some(Box::new(S3Store::new(aws().await?, url)?)));
        }
        Err(StoreError::Url(url.clone()).into())
    }
}

/// Everything the decisions need.
pub(super) struct Input {
    pub(super) inventory: Inventory,
    pub(super) answers: Answers,
    pub(super) kops_version: Option<KopsVersion>,
    source: Source,
}

impl Input {
    pub(super) async fn read(arguments: &InputArguments) -> anyhow::Result<Self> {
        let (texts, source, stored_version) = if arguments.files.is_empty() {
            let store = arguments.store.open().await?.context("give --state URL, or set KOPS_STATE_STORE")?;
            let name = arguments.store.name.as_deref().context("give --name CLUSTER")?;
            let stored = read_cluster(store.as_ref(), name).await?;
            (stored.objects, Source::StateStore, stored.kops_version)
        } else {
            let texts = arguments.files.iter().map(|file| read(file)).collect::<anyhow::Result<_>>()?;
            (texts, Source::Files, None)
        };
        let inventory = Inventory::read(texts.iter().map(|(origin, text)| (origin.as_str(), text.as_str())))?;
        if let Some(name) = &arguments.store.name
            && *name != inventory.cluster.name
        {
            bail!("the objects are of cluster {:?}, not of {name:?}", inventory.cluster.name);
        }
        let answers = answers(arguments.cloud_facts.as_deref(), &questions(&inventory)).await?;
        let stored_version = stored_version.and_then(|version| version.parse().ok());
        Ok(Self { inventory, answers, kops_version: arguments.kops_version.or(stored_version), source })
    }

    /// What kOps would refuse, in its order.
    pub(super) fn refusals(&self) -> Vec<Refusal> {
        let by_version = self.kops_version.and_then(|version| validate_version(&self.inventory, version));
        let by_rules = validate(&self.inventory, &self.answers, self.source);
        by_version.into_iter().chain(by_rules).collect()
    }

    /// The scripts of all groups that become NodePools.
    pub(super) async fn scripts(&self, arguments: &InputArguments) -> anyhow::Result<Scripts> {
        let groups: Vec<String> =
            self.inventory.karpenter_groups().iter().map(|group| group.name.clone()).collect();
        let cluster = &self.inventory.cluster.name;
        if let Some(folder) = &arguments.bootstrap_scripts {
            return groups
                .into_iter()
                .map(|group| Ok((group.clone(), script(folder, cluster, &group)?)))
                .collect();
        }
        let Some(first) = groups.first() else { return Ok(Scripts::new()) };
        let Some(store) = arguments.store.open().await? else {
            bail!(
                "the bootstrap script igconfig/node/{first}/nodeupscript.sh is missing: give --bootstrap-scripts DIR, or the \
                 state store that has it (--state)"
            );
        };
        Ok(read_scripts(store.as_ref(), cluster, &groups).await?)
    }
}

/// A file's name and text.
fn read(file: &Path) -> anyhow::Result<(String, String)> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
        return Ok(("standard input".to_owned(), text));
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok((file.display().to_string(), text))
}

/// AWS, as the process's variables and the shared files describe it.
async fn aws() -> anyhow::Result<Client> {
    Ok(Client::from_process(Arc::new(SystemEnvironment)).await?)
}

async fn answers(facts: Option<&Path>, questions: &Questions) -> anyhow::Result<Answers> {
    let Some(file) = facts else {
        let asked = ask(&aws().await?, questions).await;
        return asked.context("asking EC2 and SSM; with --cloud-facts FILE nobody is asked");
    };
    let (name, text) = read(file)?;
    let facts = CloudFacts::read(&text)
        .map_err(|error| anyhow::anyhow!("{name} holds no facts about a cloud: {error}; see docs/kops.md"))?;
    Ok(facts.answer(questions))
}

/// A group's script from a folder: by the group's name, or where a state store has it.
fn script(folder: &Path, cluster: &str, group: &str) -> anyhow::Result<String> {
    let stored = format!("igconfig/node/{group}/nodeupscript.sh");
    let places = [
        format!("{group}.sh"),
        format!("{group}/nodeupscript.sh"),
        stored.clone(),
        format!("{cluster}/{stored}"),
    ];
    let Some(file) = places.iter().map(|place| folder.join(place)).find(|file| file.is_file()) else {
        bail!(
            "the bootstrap script of InstanceGroup {group} is missing: there is neither {} nor {}",
            folder.join(&places[0]).display(),
            folder.join(&stored).display()
        );
    };
    Ok(read(&file)?.1)
}
