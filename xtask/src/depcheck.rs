//! Which crate may use which: the layering of ARCHITECTURE.md as a table that fails the build.
//!
//! Only what ships is judged: normal and build dependencies. Tests may look at anything. A crate that is not in the
//! table fails, so that its place is decided on purpose.

use anyhow::Result;
use serde_json::Value;

use crate::workspace::{Workspace, elements, text};

/// A crate's place in the layering.
struct Layer {
    name: &'static str,
    /// Workspace crates it may use.
    uses: Uses,
    /// Crates from outside it may use; `None` leaves them to `deny.toml`.
    outside: Option<&'static [&'static str]>,
}

enum Uses {
    Only(&'static [&'static str]),
    Anything,
}

/// From the bottom up.
const LAYERS: &[Layer] = &[
    // Exact arithmetic knows nothing of Kubernetes, so it has nothing to depend on.
    Layer {
        name: "karpenter-quantity",
        uses: Uses::Only(&[]),
        outside: Some(&["serde", "smallvec", "thiserror"]),
    },
    // The engine: no I/O, no clock, no async, no Kubernetes object types. jiff is there for its types alone.
    Layer {
        name: "karpenter-core",
        uses: Uses::Only(&["karpenter-quantity"]),
        outside: Some(&[
            "fixedbitset",
            "indexmap",
            "jiff",
            "rayon",
            "rustc-hash",
            "serde",
            "smallvec",
            "thiserror",
        ]),
    },
    // Judges the solver's plans, so it must not share a line with it, not even the arithmetic.
    Layer { name: "karpenter-checker", uses: Uses::Only(&[]), outside: None },
    // Judges those who disrupt by what a watch tells: it must know nothing of them.
    Layer { name: "karpenter-observer", uses: Uses::Only(&["karpenter-environment"]), outside: None },
    Layer { name: "karpenter-api", uses: Uses::Only(&["karpenter-quantity"]), outside: None },
    Layer {
        name: "karpenter-kube",
        uses: Uses::Only(&["karpenter-api", "karpenter-core", "karpenter-quantity"]),
        outside: None,
    },
    // Judges what users write with the core's algebra; it must not need a cloud or a cluster.
    Layer {
        name: "karpenter-lint",
        uses: Uses::Only(&["karpenter-api", "karpenter-core", "karpenter-kube", "karpenter-quantity"]),
        outside: None,
    },
    Layer {
        name: "karpenter-provider",
        uses: Uses::Only(&["karpenter-api", "karpenter-core", "karpenter-kube", "karpenter-quantity"]),
        outside: None,
    },
    // Providers know the contract and nothing of each other or of the controllers.
    Layer {
        name: "karpenter-kwok",
        uses: Uses::Only(&[
            "karpenter-api",
            "karpenter-core",
            "karpenter-environment",
            "karpenter-kube",
            "karpenter-provider",
            "karpenter-quantity",
            "karpenter-runtime",
            "karpenter-simcloud",
        ]),
        outside: None,
    },
    Layer {
        name: "karpenter-aws",
        uses: Uses::Only(&[
            "karpenter-api",
            "karpenter-aws-bootstrap",
            "karpenter-aws-catalogue",
            "karpenter-aws-client",
            "karpenter-core",
            "karpenter-environment",
            "karpenter-kube",
            "karpenter-provider",
            "karpenter-quantity",
            "karpenter-runtime",
            "karpenter-transport",
        ]),
        outside: None,
    },
    // How a machine becomes a node, as a function of what is known: no client, no clock.
    Layer {
        name: "karpenter-aws-bootstrap",
        uses: Uses::Only(&["karpenter-api", "karpenter-quantity"]),
        outside: None,
    },
    // What EC2 sells, as a function of what EC2 says: no client, no clock.
    Layer {
        name: "karpenter-aws-catalogue",
        uses: Uses::Only(&["karpenter-api", "karpenter-core", "karpenter-quantity"]),
        outside: None,
    },
    // How calls reach any cloud.
    Layer { name: "karpenter-transport", uses: Uses::Only(&["karpenter-environment"]), outside: None },
    // The wire to AWS: it carries what others decide.
    Layer {
        name: "karpenter-aws-client",
        uses: Uses::Only(&["karpenter-environment", "karpenter-transport"]),
        outside: None,
    },
    Layer {
        name: "karpenter-alibabacloud",
        uses: Uses::Only(&[
            "karpenter-alibabacloud-client",
            "karpenter-api",
            "karpenter-core",
            "karpenter-environment",
            "karpenter-kube",
            "karpenter-provider",
            "karpenter-quantity",
            "karpenter-runtime",
            "karpenter-transport",
        ]),
        outside: None,
    },
    // The wire to Alibaba Cloud.
    Layer {
        name: "karpenter-alibabacloud-client",
        uses: Uses::Only(&["karpenter-environment", "karpenter-transport"]),
        outside: None,
    },
    // A cloud on paper: it sells machines to anybody and must not know who buys.
    Layer {
        name: "karpenter-simcloud",
        uses: Uses::Only(&["karpenter-api", "karpenter-provider"]),
        outside: None,
    },
    // Fronts that speak a cloud's protocol: they judge our clients, so they share no code with them.
    Layer {
        name: "karpenter-simcloud-aws",
        uses: Uses::Only(&[
            "karpenter-aws-catalogue",
            "karpenter-environment",
            "karpenter-provider",
            "karpenter-quantity",
            "karpenter-simcloud",
        ]),
        outside: None,
    },
    Layer {
        name: "karpenter-simcloud-alibabacloud",
        uses: Uses::Only(&["karpenter-environment", "karpenter-provider", "karpenter-simcloud"]),
        outside: None,
    },
    // Time and chance: everybody may ask, it asks nobody.
    Layer { name: "karpenter-environment", uses: Uses::Only(&[]), outside: None },
    // A Kubernetes API for anybody: it must not know that Karpenter exists.
    Layer {
        name: "karpenter-apiserver",
        uses: Uses::Only(&["karpenter-environment", "karpenter-quantity"]),
        outside: None,
    },
    // Real clients against our API server.
    Layer {
        name: "karpenter-client-sessions",
        uses: Uses::Only(&["karpenter-apiserver", "karpenter-models", "karpenter-runtime"]),
        outside: None,
    },
    // Runs controllers, whatever they decide. It reads and writes all kinds, ours among them.
    Layer {
        name: "karpenter-runtime",
        uses: Uses::Only(&["karpenter-api", "karpenter-environment"]),
        outside: None,
    },
    // Karpenter's own controllers: any provider, no provider in particular.
    Layer {
        name: "karpenter-controllers",
        uses: Uses::Only(&[
            "karpenter-api",
            "karpenter-core",
            "karpenter-environment",
            "karpenter-kube",
            "karpenter-lint",
            "karpenter-provider",
            "karpenter-quantity",
            "karpenter-runtime",
        ]),
        outside: None,
    },
    // A cluster's own scheduler, kubelets and controllers: they must not know that Karpenter exists.
    Layer {
        name: "karpenter-models",
        uses: Uses::Only(&["karpenter-environment", "karpenter-quantity", "karpenter-runtime"]),
        outside: None,
    },
    // Compares ours with the real thing, so it sees ours as any client does.
    Layer { name: "karpenter-conformance", uses: Uses::Only(&["karpenter-apiserver"]), outside: None },
    // A whole cluster from the parts above.
    Layer {
        name: "karpenter-local",
        uses: Uses::Only(&[
            "karpenter-alibabacloud",
            "karpenter-alibabacloud-client",
            "karpenter-api",
            "karpenter-apiserver",
            "karpenter-aws",
            "karpenter-aws-client",
            "karpenter-controllers",
            "karpenter-core",
            "karpenter-environment",
            "karpenter-kwok",
            "karpenter-models",
            "karpenter-provider",
            "karpenter-runtime",
            "karpenter-simcloud",
            "karpenter-simcloud-alibabacloud",
            "karpenter-simcloud-aws",
            "karpenter-transport",
        ]),
        outside: None,
    },
    // kOps' objects to Karpenter's: data in, data out, and thin clients of stores and clusters.
    Layer {
        name: "karpenter-kops",
        uses: Uses::Only(&["karpenter-api", "karpenter-aws-client"]),
        outside: None,
    },
    // Sees the program and the cluster only from outside; it borrows the types of objects.
    Layer {
        name: "karpenter-e2e",
        uses: Uses::Only(&["karpenter-api", "karpenter-environment", "karpenter-kwok", "karpenter-observer"]),
        outside: None,
    },
    Layer { name: "karpenter-cli", uses: Uses::Anything, outside: None },
    // Programs for developers: they run the product as a child and see it only from outside.
    Layer { name: "karpenter-bench", uses: Uses::Only(&["karpenter-quantity"]), outside: None },
    Layer { name: "xtask", uses: Uses::Only(&[]), outside: None },
];

/// Prints every edge that points the wrong way; `true` when there is none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let metadata = workspace.metadata()?;
    let findings: Vec<String> = elements(&metadata, "packages").iter().flat_map(wrong_edges).collect();
    for finding in &findings {
        println!("{finding}");
    }
    Ok(findings.is_empty())
}

fn wrong_edges(package: &Value) -> Vec<String> {
    let name = text(package, "name");
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
        return vec![format!(
            "{name} has no layer: give it one in xtask/src/depcheck.rs and in ARCHITECTURE.md"
        )];
    };
    elements(package, "dependencies")
        .iter()
        .filter(|dependency| text(dependency, "kind") != "dev")
        .filter_map(|dependency| wrong_edge(layer, dependency))
        .collect()
}

fn wrong_edge(layer: &Layer, dependency: &Value) -> Option<String> {
    let used = text(dependency, "name");
    let allowed = if dependency["path"].is_string() {
        match layer.uses {
            Uses::Anything => true,
            Uses::Only(crates) => crates.contains(&used),
        }
    } else {
        layer.outside.is_none_or(|crates| crates.contains(&used))
    };
    (!allowed).then(|| {
        format!(
            "{} must not depend on {used}: move the code to the crate that may, or argue for the edge in \
             ARCHITECTURE.md and xtask/src/depcheck.rs",
            layer.name
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({ "name": name, "dependencies": dependencies })
    }

    #[test]
    fn the_core_may_use_quantities_and_nothing_above() {
        let found = wrong_edges(&package(
            "karpenter-core",
            &json!([
                { "name": "karpenter-quantity", "kind": null, "path": "q" },
                { "name": "karpenter-kube", "kind": null, "path": "k" },
            ]),
        ));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("karpenter-core must not depend on karpenter-kube"), "{}", found[0]);
    }

    #[test]
    fn the_core_may_not_bring_a_runtime_but_its_tests_may() {
        let tokio = |kind: Value| package("karpenter-core", &json!([{ "name": "tokio", "kind": kind }]));
        assert_eq!(wrong_edges(&tokio(Value::Null)).len(), 1);
        assert_eq!(wrong_edges(&tokio(json!("dev"))).len(), 0);
    }

    #[test]
    fn an_unknown_crate_must_be_given_a_place() {
        let found = wrong_edges(&package("karpenter-new", &json!([])));
        assert!(found[0].contains("has no layer"), "{}", found[0]);
    }
}
