//! `karpenter apiserver`: a Kubernetes API in one process, for kubectl, helm and controllers.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};
use karpenter_apiserver::serve::{Identity, kubeconfig, serve_until};
use karpenter_apiserver::{ApiServer, Authorization, DataDir, Options, User, write_private};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The first line of our kubeconfigs, by which we know that a file may be replaced.
const KUBECONFIG_MARK: &str = "# Written by karpenter apiserver; replaced whenever it starts.\n";
/// The file in a data directory with the administrator's token.
const ADMIN_TOKEN: &str = "admin.token";

#[derive(Args, Debug)]
pub(crate) struct ApiserverArguments {
    /// Keep the objects in this directory; without it they are gone when the program ends
    ///
    /// The directory is made if it does not exist. Every write that was answered survives a crash, and a server started
    /// again on the same directory continues with the same objects, versions and credentials.
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind_address: IpAddr,
    /// The port to listen on; 0 picks a free one
    #[arg(long, alias = "secure-port", value_name = "PORT", default_value_t = 6443)]
    port: u16,
    /// Where to write the kubeconfig [default: kubeconfig in the data directory, else karpenter.kubeconfig]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Another name or address that clients reach the server by; give the option again for more than one
    #[arg(long = "tls-san", value_name = "NAME")]
    names: Vec<String>,
    /// Whether roles restrict what callers may do
    #[arg(long, value_name = "MODE", default_value = "AlwaysAllow")]
    authorization_mode: AuthorizationMode,
    /// How many events of each resource a watch may fall behind before it has to list again (410 Gone)
    #[arg(long, value_name = "EVENTS", default_value_t = Options::default().history_limit)]
    watch_history: usize,
}

/// The names kube-apiserver gives them.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "verbatim")]
enum AuthorizationMode {
    AlwaysAllow,
    #[value(name = "RBAC")]
    Rbac,
}

/// Serves until a signal asks it to stop.
pub(crate) fn run(arguments: &ApiserverArguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting threads")?.block_on(serve(arguments, started))
}

async fn serve(arguments: &ApiserverArguments, started: Instant) -> anyhow::Result<ExitCode> {
    let place = Place::open(arguments).await?;
    place.greet(arguments, started);
    place.serve_until(asked_to_stop()).await?;
    Ok(ExitCode::SUCCESS)
}

/// A server and what clients need to reach it.
pub(crate) struct Place {
    pub(crate) server: ApiServer,
    pub(crate) kubeconfig: PathBuf,
    listener: TcpListener,
    address: SocketAddr,
    identity: Identity,
    /// Holds the directory's lock while the server runs.
    _data_dir: Option<DataDir>,
}

impl Place {
    /// Opens the store, listens, and writes the kubeconfig.
    pub(crate) async fn open(arguments: &ApiserverArguments) -> anyhow::Result<Self> {
        let listener = listen(SocketAddr::new(arguments.bind_address, arguments.port)).await?;
        let address = reachable(listener.local_addr()?);
        let data_dir = arguments.data_dir.as_ref().map(DataDir::open).transpose()?;
        let options = Options {
            history_limit: arguments.watch_history,
            authorization: match arguments.authorization_mode {
                AuthorizationMode::AlwaysAllow => Authorization::AlwaysAllow,
                AuthorizationMode::Rbac => Authorization::Rbac,
            },
            ..Options::default()
        };
        let (server, identity, token) = prepare(options, data_dir.as_ref(), &names(arguments))?;
        let file = kubeconfig_file(arguments);
        write_kubeconfig(&file, &kubeconfig(address, &identity, Some(&token)))?;
        Ok(Self { server, kubeconfig: file, listener, address, identity, _data_dir: data_dir })
    }

    /// Says where everything is.
    pub(crate) fn greet(&self, arguments: &ApiserverArguments, started: Instant) {
        greet(self.address, &self.kubeconfig, arguments.data_dir.as_deref(), started);
    }

    /// Serves until `stop` is ready or the store cannot go on.
    pub(crate) async fn serve_until(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let server = self.server;
        let collector = server.clone();
        // It ends when the server is closed.
        tokio::spawn(async move { collector.run_collector().await });
        let stopping = server.clone();
        let stop = async move {
            tokio::select! {
                () = stop => {}
                // Why is asked below.
                _ = stopping.stopped() => {}
            }
        };
        serve_until(server.clone(), self.listener, &self.identity, stop).await?;
        server.stopped().await.map_err(|stopped| {
            anyhow!(
                "{stopped}; nothing that was answered is lost: make room or repair the disk, then start again"
            )
        })
    }
}

fn prepare(
    mut options: Options,
    data_dir: Option<&DataDir>,
    names: &[String],
) -> anyhow::Result<(ApiServer, Identity, String)> {
    let mut token = options.environment.uid();
    if let Some(data_dir) = data_dir {
        let kept = data_dir.secret(ADMIN_TOKEN, || token.into_bytes())?;
        token = String::from_utf8(kept).ok().filter(|token| !token.is_empty()).with_context(|| {
            let file = data_dir.path().join(ADMIN_TOKEN);
            format!("{} is no token: remove it to have a new one made", file.display())
        })?;
    }
    options.tokens.insert(token.clone(), User::admin());
    Ok(match data_dir {
        Some(data_dir) => (ApiServer::open(options, data_dir)?, Identity::kept(data_dir, names)?, token),
        None => (ApiServer::new(options), Identity::generate(names)?, token),
    })
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "cannot listen on {address}: another program has that port; choose another with --port, or --port 0 for \
             any that is free"
        ),
        io::ErrorKind::PermissionDenied => anyhow!(
            "cannot listen on {address}: this user may not use that port; choose one above 1023 with --port"
        ),
        io::ErrorKind::AddrNotAvailable => {
            anyhow!("cannot listen on {address}: this machine does not have that --bind-address")
        }
        _ => anyhow!("cannot listen on {address}: {error}"),
    })
}

/// The address clients on this machine use.
fn reachable(bound: SocketAddr) -> SocketAddr {
    match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), bound.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), bound.port()),
        _ => bound,
    }
}

/// What the server's certificate is good for.
fn names(arguments: &ApiserverArguments) -> Vec<String> {
    let usual =
        ["127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let mut names: Vec<String> = usual.into_iter().map(str::to_owned).collect();
    names.push(arguments.bind_address.to_string());
    names.extend(arguments.names.iter().cloned());
    names.sort();
    names.dedup();
    names
}

fn kubeconfig_file(arguments: &ApiserverArguments) -> PathBuf {
    match (&arguments.kubeconfig, &arguments.data_dir) {
        (Some(file), _) => file.clone(),
        (None, Some(data_dir)) => data_dir.join("kubeconfig"),
        (None, None) => PathBuf::from("karpenter.kubeconfig"),
    }
}

/// Writes the kubeconfig, but never over a file that we did not write.
fn write_kubeconfig(file: &Path, text: &str) -> anyhow::Result<()> {
    match fs::read_to_string(file) {
        Ok(present) if !present.is_empty() && !present.starts_with(KUBECONFIG_MARK) => bail!(
            "{} is there already and was not written by this command: name another file with --kubeconfig",
            file.display()
        ),
        _ => {}
    }
    write_private(file, format!("{KUBECONFIG_MARK}{text}").as_bytes())
        .with_context(|| format!("cannot write the kubeconfig {}", file.display()))
}

/// Says where the server is. Whoever does not want to know may have closed standard output.
fn greet(address: SocketAddr, kubeconfig: &Path, data_dir: Option<&Path>, started: Instant) {
    let data = match data_dir {
        Some(path) => format!("in {}; what was answered survives a crash", path.display()),
        None => "in memory, gone when this ends; --data-dir keeps it".to_owned(),
    };
    let text = format!(
        "Kubernetes API  https://{address}, ready after {} ms\n\
         kubeconfig      {}\n\
         objects         {data}\n\
         try             kubectl --kubeconfig {} get namespaces\n",
        started.elapsed().as_millis(),
        kubeconfig.display(),
        shell_word(kubeconfig)
    );
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// A path as one word of a shell command.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@%".contains(character);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Waits for Ctrl-C or a polite kill.
pub(crate) async fn asked_to_stop() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            // Without a handler the signal ends the process at once, which the data directory survives as well.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
