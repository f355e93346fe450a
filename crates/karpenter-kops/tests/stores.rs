//! Clusters in state stores.

use std::fs;

use futures::future::BoxFuture;
use karpenter_kops::{Change, FileStore, StateStore, StoreError, read_cluster, read_scripts, write_all};

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    folder
}

#[tokio::test]
async fn a_cluster_is_read_with_its_groups_by_name() {
    let folder = folder_with(&[
        ("c.example.com/config", "cluster"),
        ("c.example.com/instancegroup/b", "second"),
        ("c.example.com/instancegroup/a", "first"),
        ("c.example.com/kops-version.txt", "1.35.1\n"),
        ("c.example.com/igconfig/node/a/nodeupscript.sh", "script"),
    ]);
    let store = FileStore::new(folder.path());
    let stored = read_cluster(&store, "c.example.com").await.unwrap();
    let texts: Vec<&str> = stored.objects.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["cluster", "first", "second"]);
    assert_eq!(stored.kops_version.as_deref(), Some("1.35.1"));
    let scripts = read_scripts(&store, "c.example.com", &["a".to_owned()]).await.unwrap();
    assert_eq!(scripts["a"], "script");
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_path() {
    let folder = folder_with(&[("c/config", "")]);
    let store = FileStore::new(folder.path());
    let error = read_cluster(&store, "other").await.unwrap_err().to_string();
    assert!(error.contains(&format!("{}/other/config", store.url())), "{error}");
    let error = read_scripts(&store, "c", &["g".to_owned()]).await.unwrap_err().to_string();
    assert!(error.contains("c/igconfig/node/g/nodeupscript.sh"), "{error}");
    assert!(matches!(read_cluster(&store, "../c").await, Err(StoreError::Name(_))));
}

fn change(path: &str, before: Option<&str>, after: &str) -> Change {
    Change { path: path.to_owned(), before: before.map(str::to_owned), after: after.to_owned() }
}

#[tokio::test]
async fn nothing_is_written_over_what_somebody_else_wrote() {
    let folder = folder_with(&[("c/config", "theirs")]);
    let store = FileStore::new(folder.path());
    let changes = [change("c/new", None, "new"), change("c/config", Some("ours"), "next")];
    assert!(matches!(write_all(&store, &changes).await, Err(StoreError::Changed(_))));
    assert_eq!(fs::read_to_string(folder.path().join("c/config")).unwrap(), "theirs");
    assert!(!folder.path().join("c/new").exists());
}

/// A store that takes no more writes to one path.
struct Broken(FileStore, &'static str);

impl StateStore for Broken {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        self.0.get(path)
    }

    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.0.list(folder)
    }

    fn put<'a>(&'a self, path: &'a str, text: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        if path == self.1 {
            let failed = StoreError::Failed {
                action: "writing",
                url: self.url().to_owned(),
                path: path.to_owned(),
                reason: "no room".to_owned(),
            };
            return Box::pin(async { Err(failed) });
        }
        self.0.put(path, text)
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.delete(path)
    }
}

#[tokio::test]
async fn a_store_that_fails_half_way_is_put_back() {
    let folder = folder_with(&[("c/config", "old")]);
    let store = Broken(FileStore::new(folder.path()), "c/last");
    let changes =
        [change("c/config", Some("old"), "new"), change("c/added", None, "x"), change("c/last", None, "y")];
    let error = write_all(&store, &changes).await.unwrap_err().to_string();
    assert!(error.contains("no room"), "{error}");
    assert_eq!(fs::read_to_string(folder.path().join("c/config")).unwrap(), "old");
    assert_eq!(store.list("c").await.unwrap(), ["config"]);
    write_all(&store.0, &changes).await.unwrap();
    assert_eq!(store.list("c").await.unwrap(), ["added", "config", "last"]);
}
