//! `karpenter apiserver` as its users see it: what it prints, what it refuses, what survives it.

#[path = "apiserver/crashes.rs"]
mod crashes;
#[path = "apiserver/process.rs"]
pub(crate) mod process;

use std::fs;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::{karpenter, stderr};
use process::{Server, client};

#[tokio::test]
async fn it_says_where_it_is_and_how_to_try_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let kubeconfig = data.join("kubeconfig").display().to_string();
    assert!(server.greeting.contains(&format!("kubectl --kubeconfig {kubeconfig} get namespaces")));
    let namespaces: Api<Namespace> = Api::all(client(&server.kubeconfig()).await);
    assert!(namespaces.list(&ListParams::default()).await.is_ok());
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test]
async fn a_kubeconfig_stays_good_across_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &[]);
    let before = server.kubeconfig();
    let maps: Api<ConfigMap> = Api::namespaced(client(&before).await, "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).expect("a config map");
    maps.create(&PostParams::default(), &map).await.expect("a free name");
    let old_port = server.port();
    assert_eq!(server.stop().code(), Some(0));
    let server = Server::start(folder.path(), &[]);
    let moved = before.replace(&format!(":{old_port}"), &format!(":{}", server.port()));
    let maps: Api<ConfigMap> = Api::namespaced(client(&moved).await, "default");
    assert!(maps.get("a").await.is_ok());
}

fn refused(arguments: &[&str]) -> String {
    let output = karpenter(&[&["apiserver"], arguments].concat(), "");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn bad_directories_ports_and_files_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("file"), "text").expect("a file");
    let text = refused(&["--port", "0", "--data-dir", &path("file")]);
    assert!(text.contains("is not a directory: name a directory"), "{text}");

    let server = Server::start(folder.path().join("taken").as_path(), &[]);
    let text = refused(&["--port", "0", "--data-dir", &path("taken")]);
    assert!(text.contains(&format!("is in use by process {}", server.id())), "{text}");
    let text = refused(&["--port", &server.port().to_string(), "--data-dir", &path("other")]);
    assert!(text.contains("another program has that port; choose another with --port"), "{text}");
    assert!(!folder.path().join("other").exists(), "a directory was made for a server that never ran");
    drop(server);

    fs::write(folder.path().join("taken/state.redb"), "scribble").expect("a file");
    let text = refused(&["--port", "0", "--data-dir", &path("taken")]);
    assert!(text.contains("is damaged and was left as it is"), "{text}");
    let text = refused(&["--port", "0", "--kubeconfig", &path("file")]);
    assert!(text.contains("was not written by this command"), "{text}");
    assert_eq!(fs::read_to_string(path("file")).expect("a file"), "text");
}

/// The system's own folder of kernel settings takes no files, not even from root.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_takes_no_files_is_refused_with_what_to_do() {
    let text = refused(&["--port", "0", "--data-dir", "/sys/kernel/karpenter"]);
    assert!(text.contains("where this user may write"), "{text}");
}
