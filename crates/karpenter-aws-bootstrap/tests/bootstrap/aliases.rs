//! Aliases and the parameters behind them.

use karpenter_aws_bootstrap::{Alias, AliasError, Variant, fits, requirements};

type Labels<'l> = &'l [(&'l str, &'l str)];

fn paths(alias: &str, kubernetes: &str) -> Vec<String> {
    let alias = Alias::parse(alias).unwrap();
    alias.parameters(kubernetes).unwrap().into_iter().map(|parameter| parameter.path).collect()
}

#[test]
fn an_alias_is_a_family_and_a_version() {
    let good = [
        ("al2@latest", "AL2", "latest"),
        ("al2023@v20250101", "AL2023", "v20250101"),
        ("AL2023@latest", "AL2023", "latest"),
        ("bottlerocket@v1.46.0", "Bottlerocket", "v1.46.0"),
        ("bottlerocket@1.46.0", "Bottlerocket", "1.46.0"),
        ("windows2019@latest", "Windows2019", "latest"),
        ("windows2022@latest", "Windows2022", "latest"),
        ("windows2025@latest", "Windows2025", "latest"),
        ("al2@a@b", "AL2", "a@b"),
    ];
    for (text, family, version) in good {
        let alias = Alias::parse(text).unwrap();
        assert_eq!((alias.family.name(), alias.version.as_str()), (family, version), "{text}");
    }
    for text in ["", "al2023", "@latest", "al2023@", "al-2023@latest", "al 2@latest"] {
        assert!(matches!(Alias::parse(text), Err(AliasError::Malformed(_))), "{text}");
    }
    for text in ["ubuntu@latest", "custom@latest", "windows@latest"] {
        assert!(matches!(Alias::parse(text), Err(AliasError::UnknownFamily(_))), "{text}");
    }
    assert!(matches!(Alias::parse("windows2022@v1"), Err(AliasError::WindowsVersion(_))));
}

#[test]
fn every_family_has_its_parameters() {
    let al2 = "/aws/service/eks/optimized-ami/1.32";
    assert_eq!(
        paths("al2@latest", "1.32"),
        [
            format!("{al2}/amazon-linux-2/recommended/image_id"),
            format!("{al2}/amazon-linux-2-arm64/recommended/image_id"),
            format!("{al2}/amazon-linux-2-gpu/recommended/image_id"),
        ]
    );
    assert_eq!(
        paths("al2@v20240807", "1.32"),
        [
            format!("{al2}/amazon-linux-2/amazon-eks-node-1.32-v20240807/image_id"),
            format!("{al2}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20240807/image_id"),
            format!("{al2}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20240807/image_id"),
        ]
    );
    let al2023 = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023";
    assert_eq!(
        paths("al2023@latest", "1.34"),
        [
            format!("{al2023}/x86_64/standard/recommended/image_id"),
            format!("{al2023}/x86_64/nvidia/recommended/image_id"),
            format!("{al2023}/x86_64/neuron/recommended/image_id"),
            format!("{al2023}/arm64/standard/recommended/image_id"),
            format!("{al2023}/arm64/nvidia/recommended/image_id"),
        ]
    );
    assert_eq!(
        paths("al2023@v20250101", "1.34")[3],
        format!("{al2023}/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.34-v20250101/image_id")
    );
    let bottlerocket = "/aws/service/bottlerocket/aws-k8s-1.34";
    for (alias, version) in [("bottlerocket@latest", "latest"), ("bottlerocket@v1.46.0", "1.46.0")] {
        assert_eq!(
            paths(alias, "1.34"),
            [
                format!("{bottlerocket}/x86_64/{version}/image_id"),
                format!("{bottlerocket}/arm64/{version}/image_id"),
                format!("{bottlerocket}-nvidia/x86_64/{version}/image_id"),
                format!("{bottlerocket}-nvidia/arm64/{version}/image_id"),
            ]
        );
    }
    assert_eq!(
        paths("windows2022@latest", "1.34"),
        ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"]
    );
}

#[test]
fn only_latest_is_read_again() {
    for (alias, mutable) in
        [("al2023@latest", true), ("al2023@v20250101", false), ("windows2022@latest", true)]
    {
        let parameters = Alias::parse(alias).unwrap().parameters("1.34").unwrap();
        assert!(parameters.iter().all(|parameter| parameter.mutable == mutable), "{alias}");
    }
}

#[test]
fn images_that_are_not_published_for_the_cluster_are_refused_with_a_remedy() {
    let cases = [
        ("al2@latest", "1.32", None),
        ("al2@latest", "1.33", Some("al2023@latest")),
        ("windows2025@latest", "1.34", Some("windows2022@latest")),
        ("windows2025@latest", "1.35", None),
        ("al2023@latest", "1.36", None),
    ];
    for (alias, kubernetes, remedy) in cases {
        let result = Alias::parse(alias).unwrap().parameters(kubernetes);
        match (remedy, result) {
            (None, Ok(_)) => {}
            (Some(remedy), Err(error)) => assert!(error.to_string().contains(remedy), "{error}"),
            (_, result) => panic!("{alias} {kubernetes}: {result:?}"),
        }
    }
    let strange = Alias::parse("al2023@latest").unwrap().parameters("latest");
    assert!(matches!(strange, Err(AliasError::KubernetesVersion(_))));
}

#[test]
fn an_image_fits_the_machines_it_was_made_for() {
    const GPU: &str = "karpenter.k8s.aws/instance-gpu-count";
    const NEURON: &str = "karpenter.k8s.aws/instance-accelerator-count";
    let plain = [("kubernetes.io/arch", "amd64"), ("kubernetes.io/os", "linux")];
    let gpu = [("kubernetes.io/arch", "amd64"), (GPU, "1")];
    let neuron = [("kubernetes.io/arch", "amd64"), (NEURON, "2")];
    let arm = [("kubernetes.io/arch", "arm64")];
    let windows = [
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "windows"),
        ("node.kubernetes.io/windows-build", "10.0.20348"),
    ];
    let cases: [(&str, Option<Variant>, Labels<'_>, bool); 10] = [
        ("x86_64", Some(Variant::Standard), &plain, true),
        ("x86_64", Some(Variant::Standard), &gpu, false),
        ("x86_64", Some(Variant::Standard), &neuron, false),
        ("x86_64", Some(Variant::Nvidia), &gpu, true),
        ("x86_64", Some(Variant::Nvidia), &plain, false),
        ("x86_64", Some(Variant::Neuron), &neuron, true),
        ("x86_64", None, &gpu, true),
        ("arm64", Some(Variant::Standard), &arm, true),
        ("arm64", None, &plain, false),
        ("x86_64", Some(Variant::Windows("10.0.20348")), &windows, true),
    ];
    for (arch, variant, labels, fitting) in cases {
        let requirements = requirements(arch, variant).unwrap();
        let label = |key: &str| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        assert_eq!(fits(&requirements, label), fitting, "{arch} {variant:?} {labels:?}");
    }
    assert_eq!(requirements("i386", None), None);
    let keys: Vec<String> = requirements("x86_64", Some(Variant::Standard))
        .unwrap()
        .into_iter()
        .map(|requirement| requirement.key)
        .collect();
    assert_eq!(keys, ["kubernetes.io/arch", GPU, NEURON], "by length, then by name");
}
