//! Which machine types EC2 has, which processors they carry, and whether they have GPUs.
//!
//! The table answers when no cloud is asked: a new family is one line in `machine_types.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What decisions need to know of a machine type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineType {
    /// Processor architectures as EC2 names them: `x86_64`, `arm64`, `i386`.
    pub architectures: Vec<String>,
    /// Whether the machine has GPUs.
    pub has_gpu: bool,
}

/// Looks a machine type up in the table.
pub(crate) fn known(name: &str) -> Option<MachineType> {
    TABLE.get(name).map(|family| MachineType {
        architectures: family.architectures.split(',').map(str::to_owned).collect(),
        has_gpu: family.has_gpu,
    })
}

struct Family {
    architectures: &'static str,
    has_gpu: bool,
}

static TABLE: LazyLock<BTreeMap<String, Family>> =
    LazyLock::new(|| include_str!("machine_types.txt").lines().flat_map(types_of_line).collect());

fn types_of_line(line: &'static str) -> Vec<(String, Family)> {
    let mut words = line.split(' ');
    let (Some(family), Some(architectures), Some(gpu)) = (words.next(), words.next(), words.next()) else {
        return Vec::new();
    };
    let has_gpu = gpu == "gpu";
    words.map(|size| (format!("{family}.{size}"), Family { architectures, has_gpu })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_whole_name() {
        let found = |name: &str| known(name).map(|found| (found.architectures.join(","), found.has_gpu));
        assert_eq!(found("m5.large"), Some(("x86_64".to_owned(), false)));
        assert_eq!(found("m6g.large"), Some(("arm64".to_owned(), false)));
        assert_eq!(found("t2.medium"), Some(("i386,x86_64".to_owned(), false)));
        assert_eq!(found("g5g.xlarge"), Some(("arm64".to_owned(), true)));
        assert_eq!(found("m5.large,c5.large"), None);
        assert_eq!(found(" m5.large"), None);
        assert_eq!(found("m5"), None);
        assert_eq!(found(""), None);
    }
}
