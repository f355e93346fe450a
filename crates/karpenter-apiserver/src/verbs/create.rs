//! create.

use serde_json::{Value, json};

use super::author::{Author, forget_unknown_versions};
use super::conversion::stored;
use super::decode::{self, conform, place, single_owners};
use super::options::WriteOptions;
use super::update::Scope;
use crate::admission::Write;
use crate::apply::{Managers, can_be_owned};
use crate::authorization::Authorization;
use crate::error::{ApiError, FieldError};
use crate::kinds::{self, pod_status};
use crate::registry::Resource;
use crate::schema::zero;
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
        let options = WriteOptions::read(call, "CreateOptions")?;
        let (mut object, _) = decode::object(call, options.validation)?;
        wipe_system_fields(&mut object);
        place(call, &mut object)?;
        single_owners(call, &mut object);
        let managers = self.first_managers(call, &mut object, &options);
        let created = self.create_object(call, object, &managers, &options)?;
        Ok(Answer::ok(created).created())
    }

    /// Credits the creator with all fields of a new object.
    pub(super) fn first_managers(
        &self,
        call: &Call<'_>,
        object: &mut Value,
        options: &WriteOptions,
    ) -> Managers {
        let resource = &call.resource;
        let mut managers = Managers::take_either(&mut json!({}), object, false);
        if !can_be_owned(object, resource.schema()) {
            return Managers::default();
        }
        forget_unknown_versions(call, &mut managers);
        let author = Author::of(self, call, options, Scope::Main);
        managers.update(&empty(resource), object, resource.schema(), author.manager());
        managers
    }

    /// Creates a conformed object whose ownership is worked out.
    pub(super) fn create_object(
        &self,
        call: &Call<'_>,
        mut object: Value,
        managers: &Managers,
        options: &WriteOptions,
    ) -> Result<bytes::Bytes, ApiError> {
        let resource = &call.resource;
        kinds::admit_create(self, resource, &mut object)?;
        if self.mutate(call, "CREATE", &mut object, None)? {
            conform(resource, &mut object).map_err(ApiError::internal)?;
            single_owners(call, &mut object);
        }
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        if &*resource.name == "limitranges" && text("name").is_empty() && text("generateName").is_empty() {
            // They alone need no name.
            object["metadata"]["name"] = call.session.draw("name", || self.environment.uid()).into();
        }
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let generated = (text("name").is_empty() && !text("generateName").is_empty())
            .then(|| text("generateName").chars().take(GENERATED_BASE_LENGTH).collect::<String>());
        for attempt in 1.. {
            let mut candidate = object.clone();
            if let Some(base) = &generated {
                let suffix = call.session.draw("suffix", || self.environment.suffix());
                candidate["metadata"]["name"] = format!("{base}{suffix}").into();
            }
            match self.create_named(call, candidate, managers, options) {
                Err(error)
                    if error.reason == "AlreadyExists" && generated.is_some() && attempt < NAME_ATTEMPTS => {}
                Err(error) if error.reason == "AlreadyExists" && !text("generateName").is_empty() => {
                    return Err(error.about_generated_name(&resource.name));
                }
                outcome => return outcome,
            }
        }
        unreachable!("the loop ends by returning")
    }

    fn create_named(
        &self,
        call: &Call<'_>,
        mut object: Value,
        managers: &Managers,
        options: &WriteOptions,
    ) -> Result<bytes::Bytes, ApiError> {
        let resource = &call.resource;
        let metadata = &mut object["metadata"];
        metadata["uid"] = call.session.draw("uid", || self.environment.uid()).into();
        metadata["creationTimestamp"] = call.session.draw("time", || self.now()).into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let invalid =
            |errors: &[FieldError]| ApiError::invalid(resource.inner_group(), &resource.kind, &name, errors);
        kinds::prepare_create(self, resource, &mut object, options.dry_run)
            .map_err(|errors| invalid(&errors))?;
        let is_job = &*resource.name == "jobs.batch";
        let posted = is_job && call.method == http::Method::POST;
        if posted && call.decode().is_ok_and(|body| pod_status::shares_labels(&body)) {
            pod_status::copy_labels(&mut object);
        }
        let errors = kinds::validate(resource, &object, None, Scope::Main);
        if !errors.is_empty() {
            return Err(invalid(&errors));
        }
        kinds::check_create(self, resource, &object)?;
        self.check_escalation(call, &object, None)?;
        kinds::warnings(resource, &object, None).into_iter().for_each(|warning| call.session.warn(warning));
        managers.put(&mut object);
        self.admit(call, &Write::of(call, "CREATE", Some(&object), None)?)?;
        // These are filled in when the object is read back.
        if is_job && pod_status::is_unlabelled(&object) {
            pod_status::copy_labels(&mut object);
        } else if &*resource.name == "namespaces" {
            kinds::default(&resource.name, &mut object, resource.schema());
        }
        let mut object = stored(resource, object);
        let key = Key::new(call.namespace(), name.as_str());
        if options.dry_run {
            if self.store.get(&resource.name, &key).is_some() {
                return Err(ApiError::already_exists(&resource.qualified(), &name));
            }
            return self.rendered_value(call, object);
        }
        let version =
            object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        if call.method == http::Method::POST && version.is_some_and(|version| version > 0) {
            return Err(ApiError::unknown_failure(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let fields = &resource.selectable_fields;
        let written = self
            .store
            .write(&resource.name, &key, Expected::Absent, &mut object, fields)
            .map_err(|_| self.taken(resource, &key, &name))?;
        self.written(resource, &object);
        self.rendered(call, &written)
    }

    /// A name is taken, perhaps by an object on its way out.
    fn taken(&self, resource: &Resource, key: &Key, name: &str) -> ApiError {
        let mut error = ApiError::already_exists(&resource.qualified(), name);
        if self.store.get(&resource.name, key).is_some_and(|object| object.deleting) {
            error.message = format!("object is being deleted: {}", error.message);
        }
        error
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
        crate::schema::canonical(&mut object, resource.schema());
        kinds::default(&resource.name, &mut object, resource.schema());
        kinds::prepare_create(self, resource, &mut object, false).ok()?;
        crate::schema::canonical(&mut object, resource.schema());
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

/// What a new object is compared with to find out what its creator set.
pub(super) fn empty(resource: &Resource) -> Value {
    let mut object = if resource.is_custom() { json!({}) } else { zero(resource.schema()) };
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    object
}

/// Removes what only the server sets.
fn wipe_system_fields(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            metadata.remove(name);
        }
    }
}
