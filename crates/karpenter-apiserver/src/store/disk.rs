//! The store's file: objects by key, the last revision of each resource, and the version of this layout.
//!
//! The file is a redb database. One commit is one transaction with an fsync, so it is there whole or not at all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde_json::Value;

use super::state::Write;
use super::writer::Journal;
use super::{Key, ResourceName, StoredObject};

/// The layout written by this program.
const FORMAT: u64 = 1;
/// Pages are read once, at the start; a larger cache would hold every object a second time.
const CACHE_BYTES: usize = 16 << 20;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// The last revision that wrote to each resource, removals included.
const RESOURCES: TableDefinition<&str, u64> = TableDefinition::new("resources");
/// Resource, namespace and name.
type Place = (&'static str, &'static str, &'static str);
/// Revision and text.
type Content = (u64, &'static [u8]);
const OBJECTS: TableDefinition<Place, Content> = TableDefinition::new("objects");

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A newer program wrote it.
    #[error("it was written in format {found} and this program knows formats up to {FORMAT}")]
    Newer {
        /// The format found.
        found: u64,
    },
    /// It is damaged, or no database at all.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another process has it open.
    #[error("another process has it open")]
    Taken,
}

impl From<redb::Error> for DiskError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                Self::Damaged(error.to_string())
            }
            redb::Error::Io(error) => Self::Io(error),
            redb::Error::DatabaseAlreadyOpen => Self::Taken,
            other => Self::Damaged(other.to_string()),
        }
    }
}

/// An open file.
#[derive(Debug)]
pub struct Disk {
    database: Database,
}

impl Disk {
    /// Makes an empty file into one that holds objects.
    ///
    /// # Errors
    /// Returns why it cannot be written.
    pub fn create(file: File) -> Result<Self, DiskError> {
        let disk = Self { database: builder().create_file(file).map_err(redb::Error::from)? };
        disk.prepare()?;
        Ok(disk)
    }

    /// Opens a file that [`Disk::create`] made, and puts it in order when its last user crashed.
    ///
    /// # Errors
    /// Returns why it cannot be used; then it is unchanged.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        sound(|| {
            let disk = Self { database: builder().open(path).map_err(redb::Error::from)? };
            disk.check_format()?;
            Ok(disk)
        })
    }

    fn prepare(&self) -> Result<(), DiskError> {
        self.transaction(|transaction| {
            transaction.open_table(META)?.insert("format", FORMAT)?;
            transaction.open_table(RESOURCES)?;
            transaction.open_table(OBJECTS)?;
            Ok(())
        })
    }

    fn check_format(&self) -> Result<(), DiskError> {
        let transaction = self.database.begin_read().map_err(redb::Error::from)?;
        let meta = transaction.open_table(META).map_err(redb::Error::from)?;
        match meta.get("format").map_err(redb::Error::from)?.map(|found| found.value()) {
            Some(found) if found > FORMAT => Err(DiskError::Newer { found }),
            Some(_) => Ok(()),
            None => Err(DiskError::Damaged("its format is not recorded".into())),
        }
    }

    /// Returns the resources ever written and the last revision of each.
    ///
    /// # Errors
    /// Returns why it cannot be read.
    pub fn resources(&self) -> Result<Vec<(ResourceName, u64)>, DiskError> {
        let read = || -> Result<Vec<_>, redb::Error> {
            let table = self.database.begin_read()?.open_table(RESOURCES)?;
            let entries = table.iter()?.map(|entry| {
                let (name, last) = entry?;
                Ok((ResourceName::from(name.value()), last.value()))
            });
            entries.collect()
        };
        sound(|| Ok(read()?))
    }

    /// Hands every object of a resource to `take`, in key order.
    ///
    /// # Errors
    /// Returns why it cannot be read.
    pub(super) fn read(
        &self,
        resource: &str,
        selectable_fields: &[String],
        mut take: impl FnMut(Key, StoredObject),
    ) -> Result<(), DiskError> {
        let open = || -> Result<_, redb::Error> { Ok(self.database.begin_read()?.open_table(OBJECTS)?) };
        sound(|| {
            let table = open()?;
            let entries = table.range((resource, "", "")..).map_err(redb::Error::from)?;
            for entry in entries {
                let (key, value) = entry.map_err(redb::Error::from)?;
                let (owner, namespace, name) = key.value();
                if owner != resource {
                    break;
                }
                let (revision, text) = value.value();
                let parsed: Value = serde_json::from_slice(text).map_err(|error| {
                    DiskError::Damaged(format!("{resource} {namespace}/{name} is no JSON: {error}"))
                })?;
                let object = StoredObject::new(&parsed, revision, selectable_fields);
                take(Key::new(namespace, name), object);
            }
            Ok(())
        })
    }

    fn transaction(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), DiskError> {
        let run = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            work(&transaction)?;
            transaction.commit()?;
            Ok(())
        };
        Ok(run()?)
    }
}

impl Journal for Disk {
    fn commit(&self, writes: &[Write]) -> Result<(), DiskError> {
        self.transaction(|transaction| {
            let mut objects = transaction.open_table(OBJECTS)?;
            let mut resources = transaction.open_table(RESOURCES)?;
            let mut last = BTreeMap::new();
            for write in writes {
                let key = (&*write.resource, &*write.key.namespace, &*write.key.name);
                let object = &write.object;
                if write.removed {
                    objects.remove(key)?;
                } else {
                    objects.insert(key, (object.revision, &*object.to_bytes()))?;
                }
                last.insert(&*write.resource, object.revision);
            }
            for (resource, revision) in last {
                resources.insert(resource, revision)?;
            }
            Ok(())
        })
    }
}

/// Reads the file, and takes a panic for the sign of damage that it is: the database trusts what its pages say.
fn sound<T>(read: impl FnOnce() -> Result<T, DiskError>) -> Result<T, DiskError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(DiskError::Damaged("its pages contradict each other".into())))
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_contradict_each_other_are_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        drop(Disk::create(File::create_new(&path).unwrap()).unwrap());
        let sane = std::fs::read(&path).unwrap();
        for start in (4096..sane.len().min(40_000)).step_by(4096) {
            let mut bytes = sane.clone();
            // Noise, the same in every run.
            let mut noise = start as u32;
            for byte in &mut bytes[start..] {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = noise.to_be_bytes()[0];
            }
            std::fs::write(&path, bytes).unwrap();
            match Disk::open(&path).and_then(|disk| disk.resources()) {
                Ok(_) | Err(DiskError::Damaged(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}
