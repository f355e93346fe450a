//! Puts a client-go informer through what happens to real ones, and checks that it believes what the server says.
//!
//! `cargo xtask test` runs it: `informer KARPENTER INFORMER [TIMES]`, the two programs to use and how often each kind of
//! trouble comes up. client-go waits longer after each trouble, so more than once is for those who have minutes. The informer reaches the server
//! through a proxy here, which can cut its connections and keep it away while the history it would need is dropped; and
//! the server is stopped, or killed, and started again on its data directory.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Events the server remembers; fewer than are written while the informer is kept away.
const HISTORY: usize = 20;
const WRITES: usize = 60;
const NAMES: u64 = 30;
/// An informer that has not caught up by then never will: client-go waits at most half of it between attempts.
const PATIENCE: Duration = Duration::from_mins(2);

/// What happens to the informer.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Nothing,
    CutConnections,
    KeptAway,
    ServerRestarts,
    ServerCrashes,
}

const TROUBLES: [Trouble; 5] = [
    Trouble::Nothing,
    Trouble::CutConnections,
    Trouble::KeptAway,
    Trouble::ServerRestarts,
    Trouble::ServerCrashes,
];

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(karpenter), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: informer KARPENTER INFORMER [TIMES]".into());
    };
    let (karpenter, program) = (PathBuf::from(karpenter), PathBuf::from(program));
    let times: usize = arguments.next().map_or(Ok(1), |times| times.parse())?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let mut server = Server::start(&karpenter, &data).await?;
    let proxy = Proxy::start().await?;
    proxy.lead_to(Some(server.port));
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, server.kubeconfig(proxy.port)?)?;
    let mut informer = Informer::start(&program, &kubeconfig).await?;
    let mut random = Random(1);
    let mut kept_away = 0;
    for (round, trouble) in TROUBLES.iter().cycle().take(times * TROUBLES.len()).enumerate() {
        write(&server.client().await?, &mut random).await?;
        match trouble {
            Trouble::Nothing => {}
            Trouble::CutConnections => proxy.lead_to(Some(server.port)),
            Trouble::KeptAway => {
                proxy.lead_to(None);
                write(&server.client().await?, &mut random).await?;
                proxy.lead_to(Some(server.port));
                kept_away += 1;
            }
            Trouble::ServerRestarts | Trouble::ServerCrashes => {
                proxy.lead_to(None);
                server.end(matches!(trouble, Trouble::ServerCrashes)).await?;
                server = Server::start(&karpenter, &data).await?;
                write(&server.client().await?, &mut random).await?;
                proxy.lead_to(Some(server.port));
            }
        }
        let maps = server.client().await?;
        let last = format!("round-{round}");
        maps.create(&PostParams::default(), &config_map(&last, "")).await?;
        let beliefs = informer.beliefs(&last).await?;
        let truth = truth(&maps).await?;
        if beliefs.versions != truth {
            return Err(format!(
                "after {trouble:?} (round {round}) the informer believes {:?}, the server says {truth:?}",
                beliefs.versions
            )
            .into());
        }
        if beliefs.gone < kept_away {
            return Err(format!(
                "the informer was kept away {kept_away} times and told so {} times",
                beliefs.gone
            )
            .into());
        }
        println!("round {round}: in sync after {trouble:?}; {}", beliefs.figures);
    }
    Ok(())
}

/// A sequence that is the same on every run (a linear congruence, its upper half).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn config_map(name: &str, content: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("content".to_owned(), content.to_owned())]));
    map
}

/// Creates, replaces and deletes config maps at random.
async fn write(maps: &Api<ConfigMap>, random: &mut Random) -> Outcome<()> {
    let mut there: BTreeSet<String> = truth(maps).await?.into_keys().collect();
    for _ in 0..WRITES {
        let name = format!("map-{}", random.below(NAMES));
        let map = config_map(&name, &random.below(1000).to_string());
        if there.insert(name.clone()) {
            maps.create(&PostParams::default(), &map).await?;
        } else if random.below(3) == 0 {
            maps.delete(&name, &DeleteParams::default()).await?;
            there.remove(&name);
        } else {
            maps.replace(&name, &PostParams::default(), &map).await?;
        }
    }
    Ok(())
}

/// The version of every config map, by name.
async fn truth(maps: &Api<ConfigMap>) -> Outcome<BTreeMap<String, String>> {
    let list = maps.list(&ListParams::default()).await?;
    let entry = |map: &ConfigMap| Some((map.metadata.name.clone()?, map.metadata.resource_version.clone()?));
    Ok(list.iter().filter_map(entry).collect())
}

/// A server process on a data directory.
struct Server {
    child: Child,
    data: PathBuf,
    port: u16,
}

impl Server {
    async fn start(karpenter: &Path, data: &Path) -> Outcome<Self> {
        let mut child = Command::new(karpenter)
            .args(["apiserver", "--port", "0", "--watch-history", &HISTORY.to_string(), "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("standard output is a pipe")?).lines();
        let line = lines.next_line().await?.unwrap_or_default();
        let address = line.split("https://127.0.0.1:").nth(1).ok_or("the server did not say where it is")?;
        let port = address.split(',').next().unwrap_or_default().parse()?;
        // The kubeconfig is written before the first line.
        Ok(Self { child, data: data.to_owned(), port })
    }

    /// The kubeconfig, for a server that seems to be at another port.
    fn kubeconfig(&self, port: u16) -> Outcome<String> {
        let text = fs::read_to_string(self.data.join("kubeconfig"))?;
        Ok(text.replace(&format!("127.0.0.1:{}", self.port), &format!("127.0.0.1:{port}")))
    }

    async fn client(&self) -> Outcome<Api<ConfigMap>> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig(self.port)?)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Api::namespaced(Client::try_from(config)?, "default"))
    }

    async fn end(mut self, crash: bool) -> Outcome<()> {
        if crash {
            self.child.kill().await?;
            return Ok(());
        }
        let id = self.child.id().ok_or("the server has ended")?;
        Command::new("kill").args(["-TERM", &id.to_string()]).status().await?;
        let status = self.child.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

/// A way to the server that can be cut.
struct Proxy {
    port: u16,
    target: watch::Sender<Option<u16>>,
}

impl Proxy {
    async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let target = watch::Sender::new(None);
        let followed = target.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward(stream, followed.subscribe()));
            }
        });
        Ok(Self { port, target })
    }

    /// Cuts all connections, and leads later ones to a port; without one they wait.
    fn lead_to(&self, port: Option<u16>) {
        self.target.send_replace(port);
    }
}

async fn forward(mut stream: TcpStream, mut target: watch::Receiver<Option<u16>>) {
    let Ok(Some(port)) = target.wait_for(Option::is_some).await.map(|port| *port) else { return };
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut stream, &mut server) => {}
        _ = target.changed() => {}
    }
}

/// What the informer says.
struct Beliefs {
    versions: BTreeMap<String, String>,
    gone: u64,
    figures: String,
}

/// The informer's process.
struct Informer {
    _child: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Informer {
    async fn start(program: &Path, kubeconfig: &Path) -> Outcome<Self> {
        let mut child = Command::new(program)
            .arg(kubeconfig)
            .arg("default")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What client-go logs about broken connections is not news here.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let questions = child.stdin.take().ok_or("standard input is a pipe")?;
        let answers = BufReader::new(child.stdout.take().ok_or("standard output is a pipe")?).lines();
        let mut informer = Self { _child: child, questions, answers };
        match informer.answer().await?.as_str() {
            "ready" => Ok(informer),
            other => Err(format!("the informer said {other:?}").into()),
        }
    }

    async fn answer(&mut self) -> Outcome<String> {
        let line = tokio::time::timeout(PATIENCE, self.answers.next_line()).await;
        Ok(line.map_err(|_| "the informer does not catch up")??.ok_or("the informer has ended")?)
    }

    /// Waits until the informer has seen the config map `last`, and asks what it believes then.
    async fn beliefs(&mut self, last: &str) -> Outcome<Beliefs> {
        self.questions.write_all(format!("{last}\n").as_bytes()).await?;
        let beliefs: Value = serde_json::from_str(&self.answer().await?)?;
        let number = |name: &str| beliefs[name].as_u64().unwrap_or_default();
        Ok(Beliefs {
            versions: serde_json::from_value(beliefs["versions"].clone())?,
            gone: number("gone"),
            figures: format!(
                "so far {} fills, {} watches, {} times 410 Gone",
                number("fills"),
                number("watches"),
                number("gone")
            ),
        })
    }
}
