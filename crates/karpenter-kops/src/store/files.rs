//! A state store in a folder.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::{StateStore, StoreError};

/// A folder as a state store (`file:///path`).
#[derive(Clone, Debug)]
pub struct FileStore {
    root: PathBuf,
    url: String,
}

impl FileStore {
    /// A store in this folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let url = format!("file://{}", root.display()).trim_end_matches('/').to_owned();
        Self { root, url }
    }

    fn get_now(&self, path: &str) -> Result<Option<String>, StoreError> {
        match fs::read_to_string(self.root.join(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("reading", path, &error)),
        }
    }

    fn list_now(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let failed = |error: &io::Error| self.failed("listing", folder, error);
        let entries = match fs::read_dir(self.root.join(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| failed(&error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&error))?;
            // Files whose names begin with a dot are texts that are being written.
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn put_now(&self, path: &str, text: &str) -> Result<(), StoreError> {
        replace(&self.root.join(path), text).map_err(|error| self.failed("writing", path, &error))
    }

    fn delete_now(&self, path: &str) -> Result<(), StoreError> {
        fs::remove_file(self.root.join(path)).map_err(|error| self.failed("removing", path, &error))
    }

    fn failed(&self, action: &'static str, path: &str, error: &io::Error) -> StoreError {
        StoreError::Failed { action, url: self.url.clone(), path: path.to_owned(), reason: error.to_string() }
    }
}

/// Writes beside the file and puts the text in its place when all of it is on the disk.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().ok_or(ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let name = file.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    let written = write().and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        // What matters is said by the first error.
        let _ = fs::remove_file(&draft);
    }
    written
}

impl StateStore for FileStore {
    fn url(&self) -> &str {
        &self.url
    }

    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        ready(self.get_now(path)).boxed()
    }

    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        ready(self.list_now(folder)).boxed()
    }

    fn put<'a>(&'a self, path: &'a str, text: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.put_now(path, text)).boxed()
    }

    fn delete<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.delete_now(path)).boxed()
    }
}
