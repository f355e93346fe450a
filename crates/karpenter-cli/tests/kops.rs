//! `karpenter kops`: what is printed, what is written, and that nothing is when something is wrong.

mod end_to_end;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::{karpenter, stderr, stdout};

fn example(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/kops");
    folder.join(file).to_str().expect("the repository's path is text").to_owned()
}

fn generate(arguments: &[&str], input: &str) -> Output {
    let facts = example("cloud.yaml");
    karpenter(&[&["kops", "generate", "--cloud-facts", &facts], arguments].concat(), input)
}

/// A state store with the example's cluster and this many copies of its group.
fn store(groups: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let cluster = folder.path().join("demo.example.com");
    let text = fs::read_to_string(example("cluster.yaml")).expect("the example can be read");
    let documents: Vec<&str> = text.split("---\n").collect();
    let write = |path: PathBuf, text: &str| {
        let parent = path.parent().expect("every file of a store stands in a folder");
        fs::create_dir_all(parent).expect("folders can be made");
        fs::write(path, text).expect("files can be written");
    };
    write(cluster.join("config"), documents[0]);
    write(cluster.join("instancegroup/control-plane"), documents[1]);
    for number in 0..groups {
        let name = format!("group-{number:03}");
        write(cluster.join("instancegroup").join(&name), &documents[2].replace("workers", &name));
        write(cluster.join(format!("igconfig/node/{name}/nodeupscript.sh")), "#!/bin/sh\nexit 0\n");
    }
    folder
}

fn url(folder: &tempfile::TempDir) -> String {
    format!("file://{}", folder.path().display())
}

#[test]
fn files_and_standard_input_give_the_same_objects() {
    let scripts = example("scripts");
    let from_file = generate(&["-f", &example("cluster.yaml"), "--bootstrap-scripts", &scripts], "");
    assert_eq!(from_file.status.code(), Some(0), "{}", stderr(&from_file));
    let text = stdout(&from_file);
    assert!(text.starts_with("---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\n"), "{text}");
    assert!(text.contains("  userData: |-\n    #!/bin/bash\n"), "{text}");
    assert!(text.contains("kind: NodePool\n"), "{text}");
    let input = fs::read_to_string(example("cluster.yaml")).unwrap();
    assert_eq!(stdout(&generate(&["-f", "-", "--bootstrap-scripts", &scripts], &input)), text);
}

#[test]
fn a_state_store_with_many_groups_is_read_whole() {
    let store = store(500);
    let output = generate(&["--state", &url(&store), "--name", "demo.example.com"], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("kind: NodePool\n").count(), 500);
}

#[test]
fn a_missing_script_is_named_and_nothing_is_printed() {
    let store = store(2);
    fs::remove_file(store.path().join("demo.example.com/igconfig/node/group-001/nodeupscript.sh")).unwrap();
    let output = generate(&["--state", &url(&store), "--name", "demo.example.com"], "");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("igconfig/node/group-001/nodeupscript.sh"), "{}", stderr(&output));
    let output = generate(&["-f", &example("cluster.yaml"), "--bootstrap-scripts", "/nowhere"], "");
    assert!(stderr(&output).contains("/nowhere/workers.sh"), "{}", stderr(&output));
}

#[test]
fn what_kops_refuses_is_refused_with_path_and_kind() {
    let input = fs::read_to_string(example("cluster.yaml")).unwrap().replace("maxSize: 20", "maxSize: 0");
    for command in ["generate", "validate"] {
        let facts = example("cloud.yaml");
        let output = karpenter(&["kops", command, "--cloud-facts", &facts, "-f", "-"], &input);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
        assert!(stderr(&output).contains("spec.maxSize: Invalid value: 0"), "{}", stderr(&output));
    }
}

#[test]
fn a_group_is_created_in_a_store_once_and_what_is_there_keeps_its_text() {
    let store = store(0);
    let config = store.path().join("demo.example.com/config");
    let before = fs::read_to_string(&config).unwrap();
    let state = url(&store);
    let create = |more: &[&str]| {
        let common = ["kops", "create", "--state", &state, "--name", "demo.example.com", "--node-count", "3"];
        karpenter(&[&common, more].concat(), "")
    };
    let missing = create(&[]);
    assert!(stderr(&missing).contains("--discovery-store"), "{}", stderr(&missing));
    let shown = create(&["--discovery-store", "s3://keys", "--dry-run"]);
    assert!(stdout(&shown).contains("minSize: 3\n"), "{}{}", stdout(&shown), stderr(&shown));
    assert_eq!(fs::read_to_string(&config).unwrap(), before, "a dry run writes nothing");
    let created = create(&["--discovery-store", "s3://keys"]);
    assert_eq!(created.status.code(), Some(0), "{}", stderr(&created));
    let after = fs::read_to_string(&config).unwrap();
    assert!(before.lines().all(|line| after.contains(line)), "{after}");
    assert!(after.contains("discoveryStore: 's3://keys/demo.example.com'\n"), "{after}");
    assert!(store.path().join("demo.example.com/instancegroup/nodes").is_file());
    let again = create(&["--discovery-store", "s3://keys"]);
    assert!(stderr(&again).contains("--group"), "{}", stderr(&again));
}

#[test]
fn other_places_are_no_state_stores() {
    let output = generate(&["--state", "gs://bucket", "--name", "demo.example.com"], "");
    assert!(stderr(&output).contains("no state store"), "{}", stderr(&output));
    let output = generate(&[], "");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
