//! Decisions about EC2NodeClasses, without a cloud.

use jiff::{SignedDuration, Timestamp};
use karpenter_aws_bootstrap::Variant;
use karpenter_aws_client::ec2::{self, Filter, Image};
use karpenter_aws_client::{Error, ErrorKind};
use serde_json::{Value, json};

use super::conditions::{Says, conditions};
use super::images::{self, Values};
use super::memory::Slot;
use super::profile::{Home, Protected, is_name, role_name};
use super::question::{TrialError, TrialResult};
use super::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, EC2NodeClass, PlacementGroupSelector,
    SecurityGroupSelectorTerm, SubnetSelectorTerm, selectors, validation,
};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the test's own value can be read")
}

fn now() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().expect("a time")
}

fn filters(filters: &[Filter]) -> Vec<String> {
    filters.iter().map(|filter| format!("{}={}", filter.name, filter.values.join(","))).collect()
}

#[test]
fn subnets_are_asked_for_by_all_ids_at_once_and_by_each_set_of_tags() {
    let terms: Vec<SubnetSelectorTerm> = read(json!([
        {"id": "subnet-1"},
        {"tags": {"Name": "private*", "team": "*"}},
        {"id": "subnet-2"},
        {"tags": {"a": "b"}},
        {"id": "subnet-3", "tags": {"ignored": "with an id"}},
    ]));
    let queries = selectors::subnet_queries(&terms);
    let asked: Vec<Vec<String>> = queries.iter().map(|query| filters(&query.filters)).collect();
    assert_eq!(
        asked,
        [
            vec!["subnet-id=subnet-1,subnet-2,subnet-3".to_owned()],
            vec!["tag:Name=private*".to_owned(), "tag-key=team".to_owned()],
            vec!["tag:a=b".to_owned()],
        ]
    );
}

#[test]
fn subnets_with_most_free_addresses_come_first_and_each_once() {
    let subnet = |id: &str, free: u32| ec2::Subnet {
        subnet_id: id.to_owned(),
        available_ip_address_count: free,
        ..ec2::Subnet::default()
    };
    let found = selectors::subnets(vec![subnet("b", 5), subnet("c", 9), subnet("a", 5), subnet("c", 9)]);
    let ids: Vec<&str> = found.iter().map(|subnet| subnet.id.as_str()).collect();
    assert_eq!(ids, ["c", "a", "b"]);
}

#[test]
fn security_groups_are_asked_for_by_id_name_and_tags() {
    let terms: Vec<SecurityGroupSelectorTerm> = read(json!([
        {"id": "sg-1"}, {"name": "nodes"}, {"tags": {"a": "*"}}, {"id": "sg-2"}, {"name": "pods"},
    ]));
    let queries = selectors::security_group_queries(&terms);
    let asked: Vec<Vec<String>> = queries.iter().map(|query| filters(&query.filters)).collect();
    assert_eq!(asked, [["group-id=sg-1,sg-2"], ["group-name=nodes,pods"], ["tag-key=a"]]);
}

#[test]
fn reservations_are_asked_for_one_by_one_or_by_filters() {
    let terms: Vec<CapacityReservationSelectorTerm> = read(json!([
        {"id": "cr-1"}, {"tags": {"a": "b"}, "ownerID": "123456789012", "instanceMatchCriteria": "open"},
    ]));
    let queries = selectors::reservation_queries(&terms);
    assert_eq!(queries[0].capacity_reservation_ids, ["cr-1"]);
    assert_eq!(queries[0].max_results, None);
    assert_eq!(
        filters(&queries[1].filters),
        ["state=active", "owner-id=123456789012", "instance-match-criteria=open", "tag:a=b"]
    );
}

#[test]
fn reservations_that_ended_or_are_unknown_are_left_out() {
    let minutes = |minutes: i64| Some(now() + SignedDuration::from_mins(minutes));
    let found = |id: &str, kind: &str, criteria: &str, end: Option<Timestamp>| ec2::CapacityReservation {
        capacity_reservation_id: id.to_owned(),
        reservation_type: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
        instance_match_criteria: Some(criteria.to_owned()),
        end_date: end,
        ..ec2::CapacityReservation::default()
    };
    let kept = selectors::reservations(
        vec![
            found("cr-6", "", "open", None),
            found("cr-5", "default", "targeted", minutes(10)),
            found("cr-4", "capacity-block", "targeted", minutes(40)),
            found("cr-3", "capacity-block", "targeted", minutes(41)),
            found("cr-2", "default", "targeted", minutes(0)),
            found("cr-1", "surprise", "targeted", None),
            found("cr-0", "default", "surprise", None),
        ],
        now(),
    );
    let states: Vec<(&str, bool)> = kept.iter().map(|found| (found.id.as_str(), found.expiring)).collect();
    assert_eq!(states, [("cr-3", false), ("cr-4", true), ("cr-5", false), ("cr-6", false)]);
    let change = selectors::next_change(&kept, now());
    assert_eq!(change, minutes(1), "when cr-3 is about to end");
}

#[test]
fn a_placement_group_is_asked_for_by_id_or_name() {
    let by = |selector: Value| selectors::placement_group_query(&read::<PlacementGroupSelector>(selector));
    assert_eq!(by(json!({"id": "pg-1"})).group_ids, ["pg-1"]);
    assert_eq!(by(json!({"name": "near"})).group_names, ["near"]);
}

fn image(id: &str, arch: &str, created: &str) -> Image {
    Image {
        image_id: id.to_owned(),
        name: Some(format!("name-{id}")),
        architecture: Some(arch.to_owned()),
        creation_date: Some(created.to_owned()),
        ..Image::default()
    }
}

/// What is asked for terms when parameters have values.
fn asked(terms: Value, values: &[(&str, &str)]) -> Vec<images::ImageQuery> {
    let terms: Vec<AmiSelectorTerm> = read(terms);
    let wanted = images::parameters(&terms, "1.34").expect("the alias can be used");
    let values: Values =
        values.iter().map(|(path, value)| ((*path).to_owned(), Some((*value).to_owned()))).collect();
    images::queries(&terms, &wanted, &values)
}

#[test]
fn images_are_asked_for_by_what_terms_say() {
    let queries = asked(
        json!([
            {"id": "ami-1"}, {"ssmParameter": "/a"}, {"ssmParameter": "/b"}, {"ssmParameter": "/missing"},
            {"name": "n*"}, {"name": "n", "owner": "o"}, {"tags": {"a": "*"}}, {"tags": {"a": "b"}, "owner": "self"},
        ]),
        &[("/a", "ami-2"), ("/b", "no image")],
    );
    let seen: Vec<(Vec<String>, Vec<String>)> =
        queries.iter().map(|query| (filters(&query.request.filters), query.request.owners.clone())).collect();
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        seen,
        [
            (list(&["image-id=ami-1,ami-2", "state=available"]), list(&[])),
            (list(&["name=n*", "state=available"]), list(&["self", "amazon"])),
            (list(&["name=n", "state=available"]), list(&["o"])),
            (list(&["tag-key=a", "state=available"]), list(&[])),
            (list(&["tag:a=b", "state=available"]), list(&["self"])),
        ]
    );
    assert!(queries.iter().all(|query| query.request.include_deprecated == Some(true)));
}

#[test]
fn an_image_of_an_alias_is_listed_for_everything_it_was_made_for() {
    let path = "/aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id";
    let queries = asked(json!([{"alias": "bottlerocket@latest"}]), &[(path, "ami-1")]);
    assert_eq!(queries[0].variants["ami-1"], [Variant::Standard, Variant::Neuron]);
    let found = vec![(queries[0].clone(), vec![image("ami-1", "x86_64", "2026-01-01T00:00:00.000Z")])];
    let images = images::images(&found, now());
    assert_eq!(images.len(), 2);
    assert_ne!(images[0].requirements, images[1].requirements);
    let nothing = asked(json!([{"alias": "bottlerocket@latest"}]), &[]);
    assert_eq!(nothing, [], "without ids there is nothing to ask");
}

#[test]
fn the_newest_image_that_is_not_deprecated_wins_for_equal_requirements() {
    let query = asked(json!([{"tags": {"a": "*"}}]), &[]).remove(0);
    let old = image("ami-1", "x86_64", "2025-01-01T00:00:00.000Z");
    let mut new = image("ami-2", "x86_64", "2026-01-01T00:00:00.000Z");
    let arm = image("ami-3", "arm64", "2025-06-01T00:00:00.000Z");
    let strange = image("ami-4", "i386", "2026-02-01T00:00:00.000Z");
    let ids = |images: Vec<Image>| -> Vec<String> {
        images::images(&[(query.clone(), images)], now()).into_iter().map(|image| image.id).collect()
    };
    assert_eq!(ids(vec![old.clone(), new.clone(), arm.clone(), strange]), ["ami-2", "ami-3"]);
    new.deprecation_time = Some("2026-02-28T00:00:00.000Z".to_owned());
    assert_eq!(ids(vec![new.clone(), old.clone()]), ["ami-1"]);
    assert_eq!(ids(vec![new.clone()]), ["ami-2"], "better than none");
    new.deprecation_time = Some("2026-03-02T00:00:00.000Z".to_owned());
    assert_eq!(ids(vec![new, old.clone()]), ["ami-2"], "it is not deprecated yet");
    let mut twin = old.clone();
    twin.image_id = "ami-0".to_owned();
    twin.name = Some("z".to_owned());
    assert_eq!(ids(vec![old, twin]), ["ami-0"], "by name, of those of the same day");
}

#[test]
fn profiles_have_names_and_paths_of_their_own() {
    let home = Home { cluster: "prod".to_owned(), region: "us-west-2".to_owned() };
    assert_eq!(home.class_path("uid"), "/karpenter/us-west-2/prod/uid/");
    assert_ne!(home.name("default", "1"), home.name("default", "2"));
    assert!(home.name("default", "1").starts_with("prod_"));
    assert!(is_name(&home.name("default", "1")));
    assert_eq!(home.legacy_name("default"), "prod_4067990795380418201", "as upstream computed it");
    for bad in ["", "a b", "a/b", &"x".repeat(129)] {
        assert!(!is_name(bad), "{bad:?}");
    }
    assert_eq!(role_name("/path/to/role"), "role");
    assert_eq!(role_name("role"), "role");
    let class: EC2NodeClass = read(json!({"metadata": {"name": "default"}, "spec": {"tags": {"mine": "1"}}}));
    let tags: Vec<String> =
        home.tags(&class).into_iter().map(|tag| format!("{}={}", tag.key, tag.value)).collect();
    assert_eq!(
        tags,
        [
            "eks:eks-cluster-name=prod",
            "karpenter.k8s.aws/ec2nodeclass=default",
            "kubernetes.io/cluster/prod=owned",
            "mine=1",
            "topology.kubernetes.io/region=us-west-2",
        ]
    );
}

#[test]
fn a_new_profile_is_protected_for_an_hour() {
    let protected = Protected::default();
    protected.protect("p", now());
    let later = |minutes: i64| now() + SignedDuration::from_mins(minutes);
    assert!(
        protected.holds("p", later(59)) && !protected.holds("p", later(60)) && !protected.holds("q", now())
    );
}

#[test]
fn answers_belong_to_questions_and_grow_old() {
    use std::time::Duration;
    let minute = Duration::from_mins(1);
    let later = |seconds: i64| now() + SignedDuration::from_secs(seconds);
    let mut slot: Slot<u32, &str> = Slot::default();
    assert_eq!(slot.good_for("a", minute, now()), None);
    slot.ask("a", now());
    slot.hear(Ok(1));
    assert_eq!(slot.value("a"), Some(&1));
    assert_eq!(slot.value("b"), None);
    assert_eq!(slot.good_for("a", minute, later(20)), Some(Duration::from_secs(40)));
    assert_eq!(slot.good_for("a", minute, later(60)), None);
    assert_eq!(slot.good_for("b", minute, now()), None);
    for (failure, wait) in [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60)] {
        slot.ask("a", now());
        slot.hear(Err("no"));
        assert_eq!(slot.good_for("a", minute, now()), Some(Duration::from_secs(wait)), "{failure}");
    }
    assert_eq!(slot.value("a"), Some(&1), "an old answer is better than none");
    assert_eq!(slot.error("a"), Some(&"no"));
    assert_eq!(slot.error("b"), None);
}

#[test]
fn conditions_carry_the_generation_and_keep_their_time() {
    let said = [("AMIsReady", Says::True), ("SubnetsReady", Says::no("SubnetsNotFound", "none"))];
    let first = conditions(&[], &said, Some(1), false, now());
    let second = conditions(&first, &said, Some(2), true, now() + SignedDuration::from_hours(1));
    assert_eq!(first.len(), 7, "without reservations");
    assert_eq!(second.len(), 8);
    let ready = second.last().expect("Ready is last");
    assert_eq!((ready.type_.as_str(), ready.message.as_str()), ("Ready", "SubnetsReady=False"));
    assert!(second.iter().all(|condition| condition.observed_generation == Some(2)));
    assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
}

#[test]
fn tags_of_others_are_refused() {
    let class = |key: &str| -> EC2NodeClass { read(json!({"spec": {"tags": {key: "x"}}})) };
    for key in [
        "kubernetes.io/cluster/prod",
        "kubernetes.io/cluster/a-b_c",
        "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim",
        "karpenter.k8s.aws/ec2nodeclass",
        "eks:eks-cluster-name",
    ] {
        assert!(validation::tag_problem(&class(key)).is_some(), "{key}");
    }
    for key in ["kubernetes.io/cluster/", "kubernetes.io/cluster/a b", "Name", "karpenter.sh/other"] {
        assert!(validation::tag_problem(&class(key)).is_none(), "{key}");
    }
}

fn error(kind: ErrorKind, code: &str, message: &str) -> Error {
    Error {
        operation: "RunInstances",
        kind,
        code: code.to_owned(),
        message: message.to_owned(),
        status: None,
        request_id: None,
    }
}

#[test]
fn answers_to_dry_runs_have_meanings() {
    let fleet =
        |kind, code: &str, message: &str| validation::of_fleet::<()>(&Err(error(kind, code, message)));
    assert_eq!(fleet(ErrorKind::DryRun, "DryRunOperation", ""), TrialResult::Allowed);
    assert_eq!(validation::of_fleet(&Ok(())), TrialResult::Allowed);
    for passing in [ErrorKind::Throttled, ErrorKind::Transient, ErrorKind::Credentials] {
        assert!(matches!(fleet(passing, "", ""), TrialResult::Unclear(_)), "{passing:?}");
    }
    let refused = |result: TrialResult| match result {
        TrialResult::Refused { reason, lasting, .. } => (reason, lasting),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(fleet(ErrorKind::Unauthorized, "UnauthorizedOperation", "")),
        ("CreateFleetAuthCheckFailed", true)
    );
    let message =
        "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    assert_eq!(
        refused(fleet(ErrorKind::Invalid, "InvalidParameterValue", message)),
        ("InstanceProfileNotFound", false)
    );
    let run =
        validation::of_instance::<()>(&Err(error(ErrorKind::Unauthorized, "UnauthorizedOperation", "")));
    assert_eq!(refused(run), ("RunInstancesAuthCheckFailed", true));
    let large = validation::without_template(&TrialError::UserDataTooLarge(17_000));
    assert_eq!(refused(large), ("UserDataSizeLimitExceeded", true));
    let denied = TrialError::Call(error(ErrorKind::Unauthorized, "UnauthorizedOperation", ""));
    assert_eq!(refused(validation::without_template(&denied)), ("CreateLaunchTemplateAuthCheckFailed", true));
    let early = TrialError::NotYet("instance types are not known yet".to_owned());
    assert!(matches!(validation::without_template(&early), TrialResult::Unclear(_)));
}
