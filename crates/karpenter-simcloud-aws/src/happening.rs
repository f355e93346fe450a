//! Things that happen to an account because a test or a person says so.

use jiff::{SignedDuration, Timestamp};
use karpenter_simcloud::MachineEvent;
use serde::Deserialize;

use crate::events;
use crate::instances::ScheduledEvent;
use crate::life::{Due, NOTICE};
use crate::world::World;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Happening {
    /// A spot instance is warned, and taken back two minutes later.
    SpotInterruption {
        /// Its id.
        instance: String,
    },
    /// A spot instance is at a higher risk.
    Rebalance {
        /// Its id.
        instance: String,
    },
    /// An instance of a reservation is warned, and taken back two minutes later.
    ReservationInterruption {
        /// Its id.
        instance: String,
    },
    /// AWS plans maintenance: a health event in the queue, and an event of the instance.
    ScheduledChange {
        /// Its id.
        instance: String,
        /// Say `instance-retirement`.
        code: String,
    },
    /// Somebody stops an instance.
    Stop {
        /// Its id.
        instance: String,
    },
    /// Somebody else terminates an instance.
    Terminate {
        /// Its id.
        instance: String,
    },
    /// A check of an instance begins to fail.
    Impairment {
        /// Its id.
        instance: String,
        /// Whether it is the system below the instance.
        #[serde(default)]
        system: bool,
    },
    /// All checks of an instance pass again.
    Recovery {
        /// Its id.
        instance: String,
    },
    /// Traffic is moved away from a zone.
    ZonalShift {
        /// The zone's id.
        zone: String,
        /// For how long.
        seconds: u32,
    },
    /// An image should not be used any more.
    Deprecation {
        /// Its id.
        image: String,
    },
    /// The account's limits change; what is left out is without one.
    Limits {
        /// Virtual CPUs of on-demand instances.
        #[serde(default)]
        on_demand_vcpus: Option<u32>,
        /// Spot instances.
        #[serde(default)]
        spot_instances: Option<u32>,
    },
    /// A message is left in the cluster's queue.
    Message {
        /// What it says.
        body: String,
    },
}

/// There is no such thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {0}")]
pub struct NotThere(String);

impl World {
    pub(crate) fn occur(&mut self, happening: Happening, now: Timestamp) -> Result<(), NotThere> {
        match happening {
            Happening::SpotInterruption { instance } => {
                self.alive(&instance)?;
                self.warn(&instance, now);
                self.agenda.add(later(now, NOTICE), Due::TakenBack, &instance);
            }
            Happening::Rebalance { instance } => {
                self.alive(&instance)?;
                let event = events::rebalance(self, &instance, now);
                self.publish(&event, now);
            }
            Happening::ReservationInterruption { instance } => {
                self.alive(&instance)?;
                let event = events::reservation_interruption(self, &instance, now);
                self.publish(&event, now);
                self.agenda.add(later(now, NOTICE), Due::TakenBack, &instance);
            }
            Happening::ScheduledChange { instance, code } => self.schedule(&instance, &code, now)?,
            Happening::Stop { instance } => self.stop(&instance, now)?,
            Happening::Terminate { instance } => {
                self.alive(&instance)?;
                self.end(&instance, now, "Client.UserInitiatedShutdown");
            }
            Happening::Impairment { instance, system } => {
                let impairment = &mut self.alive(&instance)?.impairment;
                let check = if system { &mut impairment.system } else { &mut impairment.instance };
                *check = Some(now);
            }
            Happening::Recovery { instance } => {
                let instance = self.alive(&instance)?;
                instance.impairment = crate::instances::Impairment::default();
                instance.events.clear();
            }
            Happening::ZonalShift { zone, seconds } => {
                self.zonal_shifts.insert(zone, later(now, SignedDuration::from_secs(seconds.into())));
            }
            Happening::Deprecation { image } => {
                if !self.images.deprecate(&image, now) {
                    return Err(NotThere(format!("image {image}")));
                }
            }
            Happening::Limits { on_demand_vcpus, spot_instances } => {
                self.description.on_demand_vcpus = on_demand_vcpus;
                self.description.spot_instances = spot_instances;
            }
            Happening::Message { body } => {
                let queue = self.description.cluster_name.clone();
                self.send(&queue, body, now, SignedDuration::ZERO);
            }
        }
        Ok(())
    }

    pub(crate) fn alive(&mut self, id: &str) -> Result<&mut crate::instances::Instance, NotThere> {
        let found = self.instances.get_mut(id).filter(|instance| instance.is_alive());
        found.ok_or_else(|| NotThere(format!("instance {id} that is alive")))
    }

    fn schedule(&mut self, id: &str, code: &str, now: Timestamp) -> Result<(), NotThere> {
        let not_before = later(now, SignedDuration::from_hours(24));
        self.alive(id)?.events.push(ScheduledEvent { code: code.to_owned(), not_before });
        let code = format!("AWS_EC2_{}_SCHEDULED", code.replace('-', "_").to_uppercase());
        let event = events::scheduled_change(self, &[id.to_owned()], &code, now);
        self.publish(&event, now);
        Ok(())
    }

    fn stop(&mut self, id: &str, now: Timestamp) -> Result<(), NotThere> {
        let instance = self.alive(id)?;
        instance.stopped = Some(now);
        let gone =
            MachineEvent::Gone { provider_id: instance.provider_id(), node_name: instance.dns_name.clone() };
        self.outbox.push(gone);
        self.tell_state(id, "stopping", now);
        self.tell_state(id, "stopped", now);
        Ok(())
    }
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}
