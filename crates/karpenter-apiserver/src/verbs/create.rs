//! create.

use serde_json::{Value, json};

use super::conversion::{served, stored};
use super::decode::{conformed, place};
use crate::admission::Write;
use crate::apply::{Manager, Managers};
use crate::authorization::Authorization;
use crate::error::{ApiError, FieldError};
use crate::kinds;
use crate::server::Core;
use crate::store::{Expected, Key, StoredObject};
use crate::wire::{Answer, Call};

/// How often a taken generated name is replaced by another.
const NAME_ATTEMPTS: usize = 8;
/// Generated names are cut so that the suffix still fits a label value.
const GENERATED_BASE_LENGTH: usize = 58;

impl Core {
    pub(crate) fn create(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        if call.resource.namespaced && call.target.namespace.is_none() {
            return Err(ApiError::method_not_allowed());
        }
        let mut object = call.decode()?;
        let warnings = conformed(&call.resource, &mut object, call.query)?;
        let created = self.create_object(call, object, None)?;
        Ok(Answer::ok(created).created().warn(warnings))
    }

    /// Creates a conformed object; `managers` are given by server-side apply and computed otherwise.
    pub(super) fn create_object(
        &self,
        call: &Call<'_>,
        mut object: Value,
        managers: Option<&Managers>,
    ) -> Result<bytes::Bytes, ApiError> {
        let dry_run = call.dry_run()?;
        place(call, &mut object)?;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let generated = Self::name(call, &object)?;
        for attempt in 1.. {
            let mut candidate = object.clone();
            if let Some(base) = &generated {
                let suffix = call.session.draw("suffix", || self.environment.suffix());
                candidate["metadata"]["name"] = format!("{base}{suffix}").into();
            }
            match self.create_named(call, candidate, managers, dry_run) {
                Err(error)
                    if error.reason == "AlreadyExists" && generated.is_some() && attempt < NAME_ATTEMPTS => {}
                outcome => return outcome,
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Checks the name, or returns the base of the name to generate.
    fn name(call: &Call<'_>, object: &Value) -> Result<Option<String>, ApiError> {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let (name, base) = (text("name"), text("generateName"));
        match (name.is_empty(), base.is_empty()) {
            (false, _) => Ok(None),
            (true, false) => Ok(Some(base.chars().take(GENERATED_BASE_LENGTH).collect())),
            (true, true) => {
                let missing = FieldError::required("metadata.name", "name or generateName is required");
                Err(ApiError::invalid(&call.resource.group, &call.resource.kind, "", &[missing]))
            }
        }
    }

    fn create_named(
        &self,
        call: &Call<'_>,
        mut object: Value,
        managers: Option<&Managers>,
        dry_run: bool,
    ) -> Result<bytes::Bytes, ApiError> {
        let resource = &call.resource;
        self.stamp(call, &mut object);
        kinds::prepare_create(self, resource, &mut object);
        kinds::admit_create(self, resource, &mut object)?;
        self.mutate_new(call, &mut object)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let errors = kinds::validate(resource, &object, None);
        if !errors.is_empty() {
            return Err(ApiError::invalid(&resource.group, &resource.kind, &name, &errors));
        }
        self.check_escalation(call, &object, None)?;
        let now = self.now();
        let manager_name = call.field_manager();
        let manager =
            Manager { name: &manager_name, api_version: &resource.api_version(), subresource: "", now: &now };
        let managers = managers.cloned().unwrap_or_else(|| {
            let mut managers = Managers::default();
            managers.update(None, &object, resource.schema(), manager);
            managers
        });
        managers.put(&mut object);
        self.admit(call, &Write::of(call, "CREATE", Some(&object), None)?)?;
        let mut object = stored(resource, object);
        let key = Key::new(call.namespace(), name.as_str());
        if dry_run {
            if self.store.get(&resource.name, &key).is_some() {
                return Err(ApiError::already_exists(&resource.name, &name));
            }
            return Ok(served(resource, object).to_string().into());
        }
        let fields = &resource.selectable_fields;
        let written = self
            .store
            .write(&resource.name, &key, Expected::Absent, &mut object, fields)
            .map_err(|_| ApiError::already_exists(&resource.name, &name))?;
        self.written(resource, &object);
        Ok(self.rendered(call, &written))
    }

    /// Lets mutating webhooks change a new object before anything but its content is decided.
    fn mutate_new(&self, call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
        const DECIDED: [&str; 3] = ["uid", "creationTimestamp", "generation"];
        let mut shown = object.clone();
        if let Some(metadata) = shown["metadata"].as_object_mut() {
            DECIDED.iter().for_each(|name| drop(metadata.remove(*name)));
        }
        if self.mutate(call, "CREATE", &mut shown, None)? {
            conformed(&call.resource, &mut shown, call.query)?;
            for name in DECIDED {
                if let Some(value) = object["metadata"].get(name) {
                    shown["metadata"][name] = value.clone();
                }
            }
            kinds::prepare_create(self, &call.resource, &mut shown);
            *object = shown;
        }
        Ok(())
    }

    /// Sets what the server decides about a new object's metadata.
    fn stamp(&self, call: &Call<'_>, object: &mut Value) {
        let tracks_generation = kinds::tracks_generation(&call.resource);
        let metadata = object["metadata"].as_object_mut().expect("conformed objects have metadata");
        for name in [
            "selfLink",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "generation",
        ] {
            metadata.remove(name);
        }
        metadata.insert("uid".into(), call.session.draw("uid", || self.environment.uid()).into());
        let now = call.session.draw("time", || self.now());
        metadata.insert("creationTimestamp".into(), now.into());
        if tracks_generation {
            metadata.insert("generation".into(), 1.into());
        }
    }

    /// Stores an object of the server's own making, such as the first namespaces.
    pub(crate) fn plant(
        &self,
        api_version: &str,
        kind: &str,
        mut object: Value,
    ) -> Option<std::sync::Arc<StoredObject>> {
        let registry = self.registry();
        let resource = registry.find_kind(api_version, kind)?;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"]["uid"] = self.environment.uid().into();
        object["metadata"]["creationTimestamp"] = self.now().into();
        kinds::prepare_create(self, resource, &mut object);
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
        let key = Key::new(text("namespace"), text("name"));
        self.store
            .write(&resource.name, &key, Expected::Absent, &mut object, &resource.selectable_fields)
            .ok()
    }

    /// Creates what every cluster has from the start.
    pub(crate) fn bootstrap(&self) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            self.plant("v1", "Namespace", json!({"metadata": {"name": name}}));
        }
        for (name, value) in
            [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
        {
            let description = "Used for system critical pods that must not be moved from their current node.";
            let class = json!({"metadata": {"name": name, "generation": 1}, "value": value, "description": description});
            self.plant("scheduling.k8s.io/v1", "PriorityClass", class);
        }
        if self.authorizer.mode() == Authorization::Rbac {
            self.bootstrap_roles();
        }
    }
}
