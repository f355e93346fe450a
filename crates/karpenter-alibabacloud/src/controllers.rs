//! The controllers of ECSNodeClasses: they find out what classes select, say what is wrong, and keep a class as long as machines use it.
//!
//! Decisions are functions of what the cloud answered ([`verdict`]); asking is thin ([`ask`]), and happens only when an answer is old or
//! wanting ([`memory`]). Start at [`install`].

mod ask;
mod class;
mod conditions;
mod memory;
mod question;
mod selection;
mod verdict;

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use karpenter_runtime::Runtime;

pub use question::{Answer, Question, Selected, Trouble};

use crate::node_class::{Classes, Found, cloud_pilot, container_service, handbook};
use crate::refresh::Refresh;

/// Adds the controllers of all three groups to `runtime`. They keep `classes` up to date, which launches and catalogue read. `cluster_id` is
/// `CLUSTER_ID`: what an empty `spec.clusterID` means; `refresh` asks the cloud.
pub fn install(runtime: &mut Runtime, refresh: &Refresh, classes: &Classes, cluster_id: Option<String>) {
    let memory = Arc::new(Mutex::new(memory::Memory::default()));
    let cluster_id = cluster_id.filter(|id| !id.is_empty());
    let parts = (&memory, classes, &cluster_id);
    add::<container_service::ECSNodeClass>(runtime, refresh, parts);
    add::<handbook::ECSNodeClass>(runtime, refresh, parts);
    add::<cloud_pilot::ECSNodeClass>(runtime, refresh, parts);
}

type Parts<'a> = (&'a Arc<Mutex<memory::Memory>>, &'a Classes, &'a Option<String>);

fn add<F: Found>(runtime: &mut Runtime, refresh: &Refresh, (memory, classes, cluster_id): Parts<'_>) {
    let controller = class::ClassController::<F>::new(
        Arc::clone(memory),
        classes.clone(),
        refresh.clone(),
        cluster_id.clone(),
    );
    let refresh = refresh.clone();
    runtime.add_with(controller, move |question: Question| {
        let asked = ask::ask(refresh.clone(), question.clone());
        asked.map(|answer| class::Reply { question, answer }).boxed()
    });
}
