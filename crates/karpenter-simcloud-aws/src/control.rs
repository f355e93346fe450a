//! What a test or a person turns: endpoints below `/_simulated`, outside the signed API, and the same as methods.

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::ec2::{CapacityReservation, LaunchTemplate, PlacementGroup};
use crate::faults::Fault;
use crate::happening::{Happening, NotThere};
use crate::images::Image;
use crate::instances::Instance;
use crate::network::{SecurityGroup, Subnet};
use crate::service::Service;
use crate::wire::signature::hex;
use crate::world::{Call, World};

/// Answers a request below `/_simulated`.
pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Answer {
    let path = call.operation.trim_start_matches("/_simulated").trim_matches('/');
    let (status, body) = match (call.request.method(), path) {
        (&Method::GET, "") => (200, json!(ENDPOINTS)),
        (&Method::GET, "instances") => {
            let shown = world.instances.values().map(|instance| show(instance, call.now));
            (200, shown.collect())
        }
        (&Method::GET, "launch-templates") => {
            let shown = world.templates.values();
            (
                200,
                shown
                    .map(|template| json!({"id": template.id, "name": template.name, "tags": template.tags}))
                    .collect(),
            )
        }
        (&Method::GET, "messages") => {
            let queue = world.queues.get(&world.description.cluster_name);
            (200, json!(queue.map(crate::sqs::Queue::bodies).unwrap_or_default()))
        }
        (&Method::GET, "records") => (200, world.records.show()),
        (&Method::DELETE, "records") => {
            world.records.clear();
            (200, json!({}))
        }
        (&Method::GET, "faults") => (200, json!(world.faults.show())),
        (&Method::DELETE, "faults") => {
            world.faults.clear();
            (200, json!({}))
        }
        (&Method::POST, "faults") => many::<Fault>(call, |fault| {
            world.faults.add(fault);
            Ok(())
        }),
        (&Method::POST, "happenings") => {
            many::<Happening>(call, |happening| world.occur(happening, call.now))
        }
        (method, path) => (
            404,
            json!({"error": format!("there is no {method} /_simulated/{path}"), "endpoints": ENDPOINTS}),
        ),
    };
    let response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(body.to_string()));
    Answer::Raw(response.expect("the header is plain text"))
}

const ENDPOINTS: [&str; 9] = [
    "GET /_simulated/instances",
    "GET /_simulated/launch-templates",
    "GET /_simulated/messages",
    "GET /_simulated/records",
    "DELETE /_simulated/records",
    "GET /_simulated/faults",
    "POST /_simulated/faults",
    "DELETE /_simulated/faults",
    "POST /_simulated/happenings",
];

/// Does something for the one or the many things in the body.
fn many<T: DeserializeOwned>(
    call: &Call<'_>,
    mut act: impl FnMut(T) -> Result<(), NotThere>,
) -> (u16, Value) {
    let items = match call.json.clone() {
        Value::Array(items) => items,
        one => vec![one],
    };
    for item in items {
        match serde_json::from_value(item) {
            Ok(item) => {
                if let Err(error) = act(item) {
                    return (404, json!({"error": error.to_string()}));
                }
            }
            Err(error) => return (400, json!({"error": error.to_string()})),
        }
    }
    (200, json!({}))
}

fn show(instance: &Instance, now: jiff::Timestamp) -> Value {
    json!({
        "id": instance.id,
        "state": instance.state(now),
        "instanceType": instance.facts.name,
        "zone": instance.zone.name,
        "capacityType": instance.capacity_type.word(),
        "subnet": instance.subnet,
        "image": instance.image.id,
        "privateDnsName": instance.dns_name,
        "providerID": instance.provider_id(),
        "price": instance.price,
        "tags": instance.tags,
        "userData": String::from_utf8(instance.user_data.clone()).unwrap_or_else(|bytes| hex(bytes.as_bytes())),
    })
}

impl Service {
    /// Lets something happen now.
    ///
    /// # Errors
    /// When what it happens to is not there.
    pub fn happen(&self, happening: Happening) -> Result<(), NotThere> {
        let now = self.now();
        let done = {
            let mut world = self.world();
            world.advance(now);
            world.occur(happening, now)
        };
        self.deliver();
        done
    }

    /// All instances, those that were terminated in the last hour included.
    pub fn instances(&self) -> Vec<Instance> {
        self.world().instances.values().cloned().collect()
    }

    /// All instances that nobody has ended.
    pub fn living(&self) -> Vec<Instance> {
        self.world().instances.values().filter(|instance| instance.is_alive()).cloned().collect()
    }

    /// Changes an instance behind everybody's back, as AWS does and other users of the account.
    ///
    /// # Errors
    /// When there is no such instance that is alive.
    pub fn change_instance(&self, id: &str, change: impl FnOnce(&mut Instance)) -> Result<(), NotThere> {
        self.world().alive(id).map(change)
    }

    /// All launch templates.
    pub fn launch_templates(&self) -> Vec<LaunchTemplate> {
        self.world().templates.values().cloned().collect()
    }

    /// The names of all instance profiles, with the role in each.
    pub fn instance_profiles(&self) -> Vec<(String, Option<String>)> {
        let world = self.world();
        world.identities.profiles.iter().map(|(name, profile)| (name.clone(), profile.role.clone())).collect()
    }

    /// The messages in the cluster's queue that nobody has deleted.
    pub fn messages(&self) -> Vec<String> {
        let world = self.world();
        world.queues.get(&world.description.cluster_name).map(crate::sqs::Queue::bodies).unwrap_or_default()
    }

    /// All subnets.
    pub fn subnets(&self) -> Vec<Subnet> {
        self.world().network.subnets.values().cloned().collect()
    }

    /// All security groups.
    pub fn security_groups(&self) -> Vec<SecurityGroup> {
        self.world().network.security_groups.values().cloned().collect()
    }

    /// Adds or replaces a subnet.
    pub fn put_subnet(&self, subnet: Subnet) {
        self.world().network.subnets.insert(subnet.id.clone(), subnet);
    }

    /// Adds or replaces a security group.
    pub fn put_security_group(&self, group: SecurityGroup) {
        self.world().network.security_groups.insert(group.id.clone(), group);
    }

    /// The image with an id.
    pub fn image(&self, id: &str) -> Option<Image> {
        self.world().images.images.get(id).cloned()
    }

    /// Adds or replaces an image.
    pub fn put_image(&self, image: Image) {
        self.world().images.images.insert(image.id.clone(), image);
    }

    /// The value of an SSM parameter.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.world().images.parameters.get(name).cloned()
    }

    /// Sets an SSM parameter, public ones included: a new image is released.
    pub fn put_parameter(&self, name: &str, value: &str) {
        self.world().images.parameters.insert(name.to_owned(), value.to_owned());
    }

    /// Adds or replaces a capacity reservation.
    pub fn put_capacity_reservation(&self, reservation: CapacityReservation) {
        self.world().reservations.insert(reservation.id.clone(), reservation);
    }

    /// Adds or replaces a placement group.
    pub fn put_placement_group(&self, group: PlacementGroup) {
        self.world().placement_groups.insert(group.id.clone(), group);
    }

    /// Adds a role that instances can have.
    pub fn put_role(&self, name: &str) {
        let now = self.now();
        let mut world = self.world();
        let id = world.letters("AROA", 21);
        let role = crate::iam::Role { path: "/".to_owned(), id, created: now };
        world.identities.roles.insert(name.to_owned(), role);
    }

    /// Adds an empty bucket.
    pub fn put_bucket(&self, name: &str) {
        self.world().buckets.entry(name.to_owned()).or_default();
    }
}
