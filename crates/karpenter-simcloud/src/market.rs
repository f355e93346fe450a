//! What can be had at which price: the side of a paper cloud that a simulation turns.

use jiff::Timestamp;
use karpenter_provider::OfferingKey;

/// A market for machines.
pub trait Market: Send + Sync + 'static {
    /// The price per hour now, given the list price.
    fn price(&self, offering: &OfferingKey, list: f64, now: Timestamp) -> f64;

    /// Sells one machine.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn buy(&self, offering: &OfferingKey, machine: &str, now: Timestamp) -> Result<(), String>;

    /// Takes a machine back; to be repeated without harm.
    fn give_back(&self, machine: &str, now: Timestamp);

    /// Whether machines are ever taken back.
    fn warns(&self) -> bool {
        false
    }

    /// Machines that are to be told now that they will be taken back; each is named once.
    fn warned(&self, now: Timestamp) -> Vec<String> {
        let _ = now;
        Vec::new()
    }

    /// Machines that are taken back now; each is named once.
    fn taken_back(&self, now: Timestamp) -> Vec<String> {
        let _ = now;
        Vec::new()
    }
}

/// Everything can be had at list price.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plenty;

impl Market for Plenty {
    fn price(&self, _: &OfferingKey, list: f64, _: Timestamp) -> f64 {
        list
    }

    fn buy(&self, _: &OfferingKey, _: &str, _: Timestamp) -> Result<(), String> {
        Ok(())
    }

    fn give_back(&self, _: &str, _: Timestamp) {}
}
