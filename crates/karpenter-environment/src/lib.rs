//! The one seam through which time and chance reach the rest.
//!
//! Whatever is not a function of the input (timestamps, uids, generated name suffixes, secrets, jitter) is asked from
//! an [`Environment`]. A simulation hands in a seeded one and gets the same bytes on every run.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::Instant;

/// Characters Kubernetes uses for generated name suffixes: no vowels and no look-alikes, so no words arise.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// Supplies time, uids, name suffixes and chance.
pub trait Environment: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
    /// Returns sixteen unpredictable (or, in a simulation, replayable) bytes.
    fn entropy(&self) -> [u8; 16];

    /// Returns a uid in the form of a version 4 UUID.
    fn uid(&self) -> String {
        let mut bytes = self.entropy();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Returns the random part of a name made from `generateName`.
    fn suffix(&self) -> String {
        let entropy = self.entropy();
        entropy[..SUFFIX_LENGTH]
            .iter()
            .map(|byte| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]))
            .collect()
    }

    /// Returns a number below `bound`, which must not be zero.
    fn below(&self, bound: u64) -> u64 {
        let entropy = self.entropy();
        let wide = u64::from_le_bytes(*entropy.first_chunk().expect("sixteen bytes hold eight"));
        // The high half of the product: as even as the remainder, and no division.
        ((u128::from(wide) * u128::from(bound)) >> 64) as u64
    }
}

/// The real clock and the operating system's randomness.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn entropy(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).expect("the operating system supplies randomness");
        bytes
    }
}

/// A seeded sequence of bytes.
#[derive(Debug)]
struct Sequence(Mutex<u64>);

impl Sequence {
    fn entropy(&self) -> [u8; 16] {
        let mut state = self.0.lock().expect("no code panics while holding the sequence");
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            half.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        bytes
    }
}

/// A clock that stands still until it is moved, and a seeded sequence of bytes.
#[derive(Debug)]
pub struct SeededEnvironment {
    now: Mutex<Timestamp>,
    sequence: Sequence,
}

impl SeededEnvironment {
    /// Starts the sequence of `seed` with the clock at `now`.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        Self { now: Mutex::new(now), sequence: Sequence(Mutex::new(seed)) }
    }

    /// Moves the clock to `now`.
    pub fn set_now(&self, now: Timestamp) {
        *self.lock() = now;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Timestamp> {
        self.now.lock().expect("no code panics while holding the clock")
    }
}

impl Environment for SeededEnvironment {
    fn now(&self) -> Timestamp {
        *self.lock()
    }

    fn entropy(&self) -> [u8; 16] {
        self.sequence.entropy()
    }
}

/// A clock that follows tokio's, and a seeded sequence of bytes: under a paused runtime, time passes only while
/// everybody waits, so hours are simulated in seconds and the same run is the same bytes.
#[derive(Debug)]
pub struct SimulatedEnvironment {
    start: Timestamp,
    origin: Instant,
    sequence: Sequence,
}

impl SimulatedEnvironment {
    /// Starts the sequence of `seed` with the clock at `start`.
    pub fn new(seed: u64, start: Timestamp) -> Self {
        Self { start, origin: Instant::now(), sequence: Sequence(Mutex::new(seed)) }
    }
}

impl Environment for SimulatedEnvironment {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.origin.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    fn entropy(&self) -> [u8; 16] {
        self.sequence.entropy()
    }
}

/// The `SplitMix64` step: every seed gives a full-period, well-mixed sequence.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Formats a time the way Kubernetes writes `metav1.Time`: whole seconds, UTC.
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_uids_and_suffixes() {
        let sequence = |seed| {
            let environment = SeededEnvironment::new(seed, Timestamp::UNIX_EPOCH);
            (environment.uid(), environment.suffix(), environment.uid())
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
    }

    #[test]
    fn uids_have_the_form_of_version_four() {
        let uid = SystemEnvironment.uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
    }

    #[test]
    fn chance_stays_below_its_bound() {
        let environment = SeededEnvironment::new(7, Timestamp::UNIX_EPOCH);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| environment.below(5)).collect();
        assert_eq!(drawn, (0..5).collect());
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_follows_the_runtime() {
        let environment = SimulatedEnvironment::new(7, Timestamp::UNIX_EPOCH);
        tokio::time::advance(std::time::Duration::from_hours(24)).await;
        assert_eq!(environment.now(), Timestamp::from_second(86_400).unwrap());
    }
}
