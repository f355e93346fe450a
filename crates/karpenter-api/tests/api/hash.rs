//! The template hash against values computed by upstream's own module, version 1.15.0.
//!
//! Each line of `nodepool_hash.jsonl` is a generated template and upstream's hash of it, computed in UTC.

use karpenter_api::hash::template_hash;
use karpenter_api::nodepool::NodeClaimTemplate;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    hash: String,
    template: NodeClaimTemplate,
}

#[test]
fn every_generated_template_has_upstreams_hash() {
    let lines = include_str!("../data/nodepool_hash.jsonl").lines();
    let vectors: Vec<Vector> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(vectors.len(), 400);
    for vector in &vectors {
        assert_eq!(template_hash(&vector.template).to_string(), vector.hash, "{:?}", vector.template);
    }
}

#[test]
fn the_vectors_are_not_all_alike() {
    let lines = include_str!("../data/nodepool_hash.jsonl").lines();
    let hashes: std::collections::BTreeSet<String> =
        lines.map(|line| serde_json::from_str::<Vector>(line).unwrap().hash).collect();
    assert!(hashes.len() > 350, "{} distinct hashes", hashes.len());
}
