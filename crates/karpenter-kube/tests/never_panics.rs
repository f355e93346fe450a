//! Whatever is in a file, it is read or refused.

use karpenter_kube::scenario::load;
use proptest::prelude::*;

use crate::EXAMPLE;
use crate::mutation::{damaged, damages};

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = load(&bytes);
    }

    #[test]
    fn a_cut_or_overwritten_file_is_read_or_refused(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let place = place.index(bytes.len());
        let _ = load(&bytes[..place]);
        bytes[place] = byte;
        let _ = load(&bytes);
    }

    #[test]
    fn a_scenario_with_odd_values_is_read_or_refused(damages in damages()) {
        let example = serde_json::from_str(EXAMPLE).expect("the example is JSON");
        let _ = load(damaged(&example, &damages).to_string().as_bytes());
    }
}
