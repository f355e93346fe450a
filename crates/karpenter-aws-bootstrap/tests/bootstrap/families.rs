//! What families have by default.

use karpenter_aws_bootstrap::AmiFamily;

const ALL: [AmiFamily; 7] = [
    AmiFamily::Al2,
    AmiFamily::Al2023,
    AmiFamily::Bottlerocket,
    AmiFamily::Windows2019,
    AmiFamily::Windows2022,
    AmiFamily::Windows2025,
    AmiFamily::Custom,
];

#[test]
fn names_are_read_as_they_are_written() {
    for family in ALL {
        assert_eq!(AmiFamily::by_name(family.name()), Some(family));
        let alias = family.alias().and_then(AmiFamily::by_alias);
        assert_eq!(alias, (family != AmiFamily::Custom).then_some(family));
    }
    assert_eq!(AmiFamily::by_name("al2023"), None, "amiFamily is case sensitive");
}

#[test]
fn volumes_by_default() {
    let volumes = |family: AmiFamily| -> Vec<(&str, u32)> {
        family.default_volumes().iter().map(|volume| (volume.device, volume.gib)).collect()
    };
    assert_eq!(volumes(AmiFamily::Al2), [("/dev/xvda", 20)]);
    assert_eq!(volumes(AmiFamily::Al2023), [("/dev/xvda", 20)]);
    assert_eq!(volumes(AmiFamily::Bottlerocket), [("/dev/xvda", 4), ("/dev/xvdb", 20)]);
    assert_eq!(volumes(AmiFamily::Windows2025), [("/dev/sda1", 50)]);
    assert_eq!(volumes(AmiFamily::Custom), []);
    let devices: Vec<Option<&str>> = ALL.into_iter().map(AmiFamily::ephemeral_device).collect();
    let windows = Some("/dev/sda1");
    assert_eq!(
        devices,
        [Some("/dev/xvda"), Some("/dev/xvda"), Some("/dev/xvdb"), windows, windows, windows, None]
    );
}

#[test]
fn windows_has_builds_and_no_density_by_interfaces() {
    for family in ALL {
        assert_eq!(family.is_windows(), family.windows_build().is_some());
        assert_eq!(family.supports_eni_limited_pod_density(), !family.is_windows());
        assert_eq!(family.supports_pods_per_core(), family != AmiFamily::Bottlerocket);
        assert_eq!(family.takes_any_kubelet_field(), family == AmiFamily::Al2023);
    }
}
