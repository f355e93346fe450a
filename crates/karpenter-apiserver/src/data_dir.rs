//! The directory a server keeps its state in: one process at a time, secrets readable by their owner only.
//!
//! | File | What |
//! |---|---|
//! | `lock` | held while a server runs; its text is the process id |
//! | `state.redb` | the objects |
//! | others | secrets, each written once ([`DataDir::secret`]) |
//!
//! Files appear under their name only when they are complete, so a crash during the first start leaves nothing
//! half-made behind.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::store::{Disk, DiskError};

const LOCK: &str = "lock";
const STATE: &str = "state.redb";

/// Why a data directory cannot be used. Whatever it holds is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The path names something else.
    #[error("{} is not a directory: name a directory for the data, it is made if it does not exist", .0.display())]
    NotADirectory(PathBuf),
    /// Another server is running on it.
    #[error(
        "the data directory {} is in use by {owner}: stop that server, or name another directory", path.display()
    )]
    Taken {
        /// The directory.
        path: PathBuf,
        /// Who uses it, as far as known.
        owner: String,
    },
    /// The operating system refused.
    #[error(
        "cannot use {}: {error}; the data directory must be on a file system with free space where this user may \
         write", path.display()
    )]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// A newer program wrote the data.
    #[error(
        "{} was written by a newer version of this program (format {found}): use that version, or name another \
         directory", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The data cannot be read.
    #[error(
        "{} is damaged and was left as it is: {why}; put a copy of it back, or name another directory to start empty",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A data directory that belongs to this process until the value is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// The lock ends when the file is closed.
    _lock: File,
}

impl DataDir {
    /// Takes a directory, and makes it when it does not exist.
    ///
    /// # Errors
    /// Returns why it cannot be used, for example because another process has it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let path = path.into();
        make_directory(&path)?;
        let lock = take_lock(&path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the secret kept under `name`, and keeps the one that `make` returns when there is none.
    ///
    /// # Errors
    /// Returns why it cannot be read or written.
    pub fn secret(&self, name: &str, make: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, DataDirError> {
        let path = self.path.join(name);
        let refused = |error| DataDirError::Io { path: path.clone(), error };
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = make();
                write_private(&path, &secret).map_err(refused)?;
                Ok(secret)
            }
            read => read.map_err(refused),
        }
    }

    /// Opens the objects' file, or starts an empty one.
    pub(crate) fn disk(&self) -> Result<Disk, DataDirError> {
        let path = self.path.join(STATE);
        if path.exists() {
            return Disk::open(&path).map_err(|error| self.disk_error(error));
        }
        let new = unfinished(&path);
        let create = || -> Result<Disk, DiskError> {
            let disk = Disk::create(private_file(&new)?)?;
            fs::rename(&new, &path)?;
            sync_directory(&self.path)?;
            Ok(disk)
        };
        create().map_err(|error| self.disk_error(error))
    }

    /// Says what an error of the objects' file means for whoever started the server.
    pub(crate) fn disk_error(&self, error: DiskError) -> DataDirError {
        let path = self.path.join(STATE);
        match error {
            DiskError::Newer { found } => DataDirError::Newer { path, found },
            DiskError::Damaged(why) => DataDirError::Damaged { path, why },
            DiskError::Io(error) => DataDirError::Io { path, error },
            DiskError::Taken => {
                DataDirError::Taken { path: self.path.clone(), owner: "another process".into() }
            }
        }
    }
}

fn make_directory(path: &Path) -> Result<(), DataDirError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Ok(()) => Ok(()),
        Err(_) if path.exists() && !path.is_dir() => Err(DataDirError::NotADirectory(path.to_owned())),
        Err(error) => Err(DataDirError::Io { path: path.to_owned(), error }),
    }
}

fn take_lock(directory: &Path) -> Result<File, DataDirError> {
    let path = directory.join(LOCK);
    let refused = |error| DataDirError::Io { path: path.clone(), error };
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(refused)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // The process may have just started and not yet said who it is.
            let _ = lock.read_to_string(&mut owner);
            let owner = match owner.trim() {
                "" => "another process".to_owned(),
                id => format!("process {id}"),
            };
            return Err(DataDirError::Taken { path: directory.to_owned(), owner });
        }
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    lock.set_len(0).map_err(refused)?;
    writeln!(lock, "{}", std::process::id()).map_err(refused)?;
    Ok(lock)
}

/// Writes a file that only its owner can read; it is there whole or not at all.
///
/// # Errors
/// Returns what the operating system says.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = unfinished(path);
    let mut file = private_file(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Makes an empty file that only its owner can read.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Where a file is made before it gets its name.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Makes names in a directory durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}
