//! Which types can be nodes of a class at all, whatever they cost.

use std::sync::Arc;

use karpenter_api::labels::ARCH_AMD64;

use crate::class::ClassSettings;
use crate::facts::TypeFacts;
use crate::types::architecture;

/// Why machines of a type cannot be nodes of a class, if they cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// Amazon Linux 2023 on the first Graviton.
    #[error("the images of this family do not boot on a1 machines")]
    ImageOnA1,
    /// Windows on Arm.
    #[error("Windows images run on amd64 machines only")]
    WindowsOnArm,
    /// No enhanced networking.
    #[error("the type has no enhanced networking, which the class's networkInterfaces need")]
    NoEnhancedNetworking,
    /// More cards or interfaces than there are.
    #[error("the class's networkInterfaces name a card or device that the type does not have")]
    TooManyInterfaces,
    /// More EFAs than there are.
    #[error("the class's networkInterfaces have more efa-only interfaces than the type allows")]
    TooManyEfas,
    /// `cpuOptions`.
    #[error("the type does not support nested virtualization")]
    NoNestedVirtualization,
    /// The group's strategy.
    #[error("the type cannot be placed in a group with this strategy")]
    PlacementStrategy,
    /// Timeouts of connections.
    #[error("connectionTracking needs a type with the nitro hypervisor")]
    NoConnectionTracking,
}

/// Whether machines of a type can be nodes of a class.
///
/// # Errors
///
/// With the first reason why they cannot.
pub fn compatibility(facts: &TypeFacts, class: &ClassSettings) -> Result<(), Incompatible> {
    let has = |list: &[Arc<str>], word: &str| list.iter().any(|found| &**found == word);
    let check = |good: bool, otherwise| if good { Ok(()) } else { Err(otherwise) };
    let amd64 = architecture(facts) == Some(ARCH_AMD64);
    check(class.family.windows_build.is_none() || amd64, Incompatible::WindowsOnArm)?;
    check(class.family.runs_a1 || facts.family() != "a1", Incompatible::ImageOnA1)?;
    if !class.network_interfaces.is_empty() {
        interfaces_fit(facts, class)?;
    }
    let nested = has(&facts.processor_features, "nested-virtualization");
    check(!class.nested_virtualization || nested, Incompatible::NoNestedVirtualization)?;
    let placed =
        class.placement_group.as_ref().is_none_or(|group| has(&facts.placement_strategies, &group.strategy));
    check(placed, Incompatible::PlacementStrategy)?;
    let nitro = facts.hypervisor.as_deref() == Some("nitro");
    check(!class.connection_tracking || nitro, Incompatible::NoConnectionTracking)
}

fn interfaces_fit(facts: &TypeFacts, class: &ClassSettings) -> Result<(), Incompatible> {
    if &*facts.network.ena_support == "unsupported" {
        return Err(Incompatible::NoEnhancedNetworking);
    }
    for interface in &class.network_interfaces {
        let card = facts.network.cards.iter().find(|card| card.index == interface.card);
        if card.is_none_or(|card| interface.device >= card.max_interfaces) {
            return Err(Incompatible::TooManyInterfaces);
        }
    }
    let efas = class.network_interfaces.iter().filter(|interface| interface.efa_only).count() as u32;
    if efas > facts.network.max_efa_interfaces.unwrap_or(0) {
        return Err(Incompatible::TooManyEfas);
    }
    Ok(())
}
