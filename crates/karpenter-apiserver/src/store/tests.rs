//! Behaviour of the store: revisions, history, paging at an old revision, compaction.

use serde_json::json;

use super::*;

fn resource() -> ResourceName {
    "pods".into()
}

fn put(store: &Store, name: &str, expected: Expected) -> Result<u64, Changed> {
    let mut value = json!({"metadata": {"name": name, "namespace": "a", "uid": name}});
    store.write(&resource(), &Key::new("a", name), expected, &mut value, &[]).map(|object| object.revision)
}

fn names(page: &Page) -> Vec<&str> {
    page.objects.iter().map(|(key, _)| &*key.name).collect()
}

#[test]
fn a_write_needs_the_revision_it_read() {
    let store = Store::new(10);
    let first = put(&store, "x", Expected::Absent).unwrap();
    assert_eq!(put(&store, "x", Expected::Absent), Err(Changed));
    let second = put(&store, "x", Expected::Revision(first)).unwrap();
    assert!(second > first);
    assert_eq!(put(&store, "x", Expected::Revision(first)), Err(Changed));
}

#[test]
fn a_list_at_an_older_revision_undoes_later_writes() {
    let store = Store::new(10);
    put(&store, "b", Expected::Absent).unwrap();
    let removed = put(&store, "c", Expected::Absent).unwrap();
    let then = store.revision();
    put(&store, "a", Expected::Absent).unwrap();
    store.remove(&resource(), &Key::new("a", "c"), removed, &mut json!({"metadata": {}}), &[]).unwrap();
    assert_eq!(names(&store.list("pods", None, None, None).unwrap()), ["a", "b"]);
    assert_eq!(names(&store.list("pods", Some("a"), None, Some(then)).unwrap()), ["b", "c"]);
    let rest = store.list("pods", None, Some(&Key::new("a", "b")), Some(then)).unwrap();
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(rest.revision, then);
}

#[test]
fn objects_are_found_by_their_node_as_they_move() {
    let store = Store::new(10);
    let fields = ["spec.nodeName".to_owned()];
    let place = |name: &str, node: &str, expected| {
        let mut value = json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
        store.write(&resource(), &Key::new("a", name), expected, &mut value, &fields).unwrap().revision
    };
    let first = place("x", "", Expected::Absent);
    let then = place("y", "n1", Expected::Absent);
    place("z", "n2", Expected::Absent);
    let moved = place("x", "n1", Expected::Revision(first));
    let on = |node, revision| {
        let page = store.list_with("pods", node, Some("a"), revision).unwrap();
        let there = page.objects.iter().filter(|(_, object)| &*object.fields[0] == node);
        there.map(|(key, _)| key.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((on("n1", moved), on("", moved)), (vec!["x".to_owned(), "y".to_owned()], Vec::new()));
    assert_eq!((on("n1", then), on("", then)), (vec!["y".to_owned()], vec!["x".to_owned()]));
    assert!(store.list_with("pods", "n1", Some("b"), moved).unwrap().objects.is_empty());
    let mut last = json!({"metadata": {"name": "x"}, "spec": {"nodeName": "n1"}});
    store.remove(&resource(), &Key::new("a", "x"), moved, &mut last, &fields).unwrap();
    assert_eq!(on("n1", store.revision()), ["y"]);
}

#[test]
fn dropped_history_is_reported_as_compacted() {
    let store = Store::new(2);
    let start = store.revision();
    for name in ["a", "b", "c"] {
        put(&store, name, Expected::Absent).unwrap();
    }
    assert!(store.subscribe(&resource(), start).is_err());
    assert!(store.list("pods", None, None, Some(start)).is_err());
    assert_eq!(store.events_after("pods", start + 1).unwrap().0.len(), 2);
    store.compact();
    assert!(store.subscribe(&resource(), start + 1).is_err());
    assert!(store.subscribe(&resource(), store.revision()).is_ok());
}

#[test]
fn a_subscription_sees_each_write_once_and_in_order() {
    let store = Store::new(10);
    let mut subscription = store.subscribe(&resource(), store.revision()).unwrap();
    let revision = put(&store, "x", Expected::Absent).unwrap();
    put(&store, "x", Expected::Revision(revision)).unwrap();
    let kinds: Vec<_> = subscription.drain(&store).unwrap().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Added, EventKind::Modified]);
    assert!(subscription.drain(&store).unwrap().is_empty());
}

#[test]
fn dependents_follow_owner_references() {
    let store = Store::new(10);
    let mut child = json!({"metadata": {"name": "x", "ownerReferences": [{"uid": "u1", "name": "o"}]}});
    let key = Key::new("a", "x");
    let object = store.write(&resource(), &key, Expected::Absent, &mut child, &[]).unwrap();
    assert_eq!(store.dependents("u1").len(), 1);
    child["metadata"]["ownerReferences"] = json!([]);
    store.write(&resource(), &key, Expected::Revision(object.revision), &mut child, &[]).unwrap();
    assert!(store.dependents("u1").is_empty());
}
