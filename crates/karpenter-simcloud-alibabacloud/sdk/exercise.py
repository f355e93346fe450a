"""The official SDKs against the simulated cloud: `exercise.py PROGRAM`, where PROGRAM is the example `serve`.

Each function whose name begins with `test_` gets a cloud of its own. The last line counts them.
"""

import base64
import json
import sys
import time
import traceback

from alibabacloud_cms20190101 import models as cms
from alibabacloud_cs20151215 import models as cs
from alibabacloud_ecs20140526 import models as ecs
from alibabacloud_ram20150501 import models as ram
from alibabacloud_sts20150401 import models as sts
from alibabacloud_vpc20160428 import models as vpc
from mns.queue import Message

from front import Front, refused, unique, until

X64 = "aliyun_3_x64_20G_alibase_20250629.vhd"
ARM64 = "aliyun_3_arm64_20G_alibase_20250629.vhd"


def vswitch(front, zone="h"):
    return f"vsw-simulated{zone}private"


def run(front, zone="h", **fields):
    """Launches a machine and returns its id."""
    request = {
        "region_id": front.region,
        "instance_type": "ecs.g7.large",
        "image_id": X64,
        "v_switch_id": vswitch(front, zone),
        "security_group_id": front.securityGroup,
        "system_disk": ecs.RunInstancesRequestSystemDisk(category="cloud_essd", size="40"),
        **fields,
    }
    return front.ecs().run_instances(ecs.RunInstancesRequest(**request)).instance_id_sets.instance_id_set


def describe(front, **fields):
    request = ecs.DescribeInstancesRequest(region_id=front.region, **fields)
    return front.ecs().describe_instances(request)


def instances(front, *ids):
    return describe(front, instance_ids=json.dumps(ids)).instances.instance


def quick(front):
    front.control("POST", "times", {"pending": 0, "starting": 0, "booting": 0, "stopping": 0, "event_delay": 0})


def running(front, **fields):
    """Launches a machine and waits until it runs."""
    quick(front)
    (id,) = run(front, **fields)
    until(lambda: instances(front, id)[0].status == "Running")
    return id


# Signatures


def test_a_good_signature_is_accepted_and_recorded_with_its_key(front):
    assert front.ecs().describe_zones(ecs.DescribeZonesRequest(region_id=front.region)).zones.zone[0].zone_id
    (record,) = front.control("GET", "requests?action=DescribeZones")
    assert record["key"] == front.key and record["service"] == "ecs"
    assert record["params"] == {"RegionId": front.region}


def test_a_wrong_secret_is_refused_by_every_service(front):
    request = ecs.DescribeZonesRequest(region_id=front.region)
    refused(lambda: front.ecs(secret="wrong").describe_zones(request), "SignatureDoesNotMatch", 400)
    refused(lambda: front.cs(secret="wrong").describe_cluster_detail(front.cluster), "SignatureDoesNotMatch", 400)
    refused(lambda: front.sts(secret="wrong").get_caller_identity(), "SignatureDoesNotMatch", 400)


def test_an_unknown_key_is_refused(front):
    request = ecs.DescribeZonesRequest(region_id=front.region)
    refused(lambda: front.ecs(key="nobody").describe_zones(request), "InvalidAccessKeyId.NotFound", 404)


def test_odd_characters_in_parameters_survive_signing(front):
    value = "a b*c~d/e:f+g&h=i é 中"
    request = vpc.CreateVSwitchRequest(
        region_id=front.region, vpc_id=front.vpc, zone_id="cn-hangzhou-h", cidr_block="10.9.0.0/24",
        v_switch_name=value, tag=[vpc.CreateVSwitchRequestTag(key="k/1", value=value)],
    )
    id = front.vpc_client().create_vswitch(request).v_switch_id
    found = front.vpc_client().describe_vswitches(vpc.DescribeVSwitchesRequest(region_id=front.region, v_switch_id=id))
    assert found.v_switches.v_switch[0].v_switch_name == value
    assert found.v_switches.v_switch[0].tags.tag[0].value == value


def test_the_older_signature_of_path_services_is_verified(front):
    assert front.cs(algorithm="v2").describe_cluster_detail(front.cluster).cluster_id == front.cluster
    script = front.cs(algorithm="v2").describe_cluster_attach_scripts(
        front.cluster, cs.DescribeClusterAttachScriptsRequest(keep_instance_name=True))
    assert "--token" in script
    wrong = front.cs(secret="wrong", algorithm="v2")
    refused(lambda: wrong.describe_cluster_detail(front.cluster), "SignatureDoesNotMatch", 400)
    versions = cs.DescribeKubernetesVersionMetadataRequest(
        region=front.region, cluster_type="ManagedKubernetes", kubernetes_version="1.32.1")
    assert len(front.cs(algorithm="v2").describe_kubernetes_version_metadata(versions)) == 1


def test_unsigned_requests_are_refused(front):
    status, text = front.http("POST", "/?Action=DescribeZones&Version=2014-05-26&RegionId=cn-hangzhou")
    assert status == 400 and "Authorization" in text, text


# Discovery


def test_regions_and_zones(front):
    assert [r.region_id for r in front.ecs().describe_regions(ecs.DescribeRegionsRequest()).regions.region] == [front.region]
    zones = front.ecs().describe_zones(ecs.DescribeZonesRequest(region_id=front.region)).zones.zone
    assert len(zones) == 4


def test_instance_types_come_in_pages_and_there_are_more_than_three_hundred(front):
    found, token = [], None
    while True:
        request = ecs.DescribeInstanceTypesRequest(max_results=1600, next_token=token)
        page = front.ecs().describe_instance_types(request)
        assert len(page.instance_types.instance_type) <= 100
        found += page.instance_types.instance_type
        token = page.next_token
        if not token:
            break
    by_name = {t.instance_type_id: t for t in found}
    assert len(by_name) == len(found) >= 300
    g7 = by_name["ecs.g7.large"]
    assert (g7.cpu_core_count, g7.memory_size, g7.cpu_architecture) == (2, 8.0, "X86")
    assert by_name["ecs.c8y.large"].cpu_architecture == "ARM"
    assert by_name["ecs.t6-c1m4.large"].instance_type_family == "ecs.t6"
    gpu = by_name["ecs.gn7i-c8g1.2xlarge"]
    assert (gpu.gpuamount, gpu.gpuspec) == (1, "NVIDIA A10")
    named = ecs.DescribeInstanceTypesRequest(instance_types=["ecs.g7.large", "ecs.r7.large"])
    assert len(front.ecs().describe_instance_types(named).instance_types.instance_type) == 2


def test_stock_is_told_by_zone_and_market(front):
    front.control("POST", "stock", {"instance_type": "ecs.g7.large", "zone": "cn-hangzhou-i", "market": "spot", "stock": "WithoutStock"})

    def stock(strategy):
        request = ecs.DescribeAvailableResourceRequest(
            region_id=front.region, destination_resource="InstanceType", instance_charge_type="PostPaid",
            spot_strategy=strategy, instance_type="ecs.g7.large",
        )
        zones = front.ecs().describe_available_resource(request).available_zones.available_zone
        return {
            z.zone_id: z.available_resources.available_resource[0].supported_resources.supported_resource[0].status_category
            for z in zones
        }

    assert stock("NoSpot")["cn-hangzhou-i"] == "WithStock"
    assert stock("SpotAsPriceGo")["cn-hangzhou-i"] == "WithoutStock"
    disks = ecs.DescribeAvailableResourceRequest(
        region_id=front.region, destination_resource="SystemDisk", instance_type="ecs.g7.large", instance_charge_type="PostPaid"
    )
    zone = front.ecs().describe_available_resource(disks).available_zones.available_zone[0]
    categories = [r.value for r in zone.available_resources.available_resource[0].supported_resources.supported_resource]
    assert "cloud_essd" in categories and "cloud_efficiency" not in categories


def test_prices_on_demand_and_spot(front):
    request = ecs.DescribePriceRequest(region_id=front.region, resource_type="instance", instance_type="ecs.g7.large", price_unit="Hour")
    price = front.ecs().describe_price(request).price_info.price
    assert price.currency == "CNY" and 0.1 < price.trade_price < 5
    history = ecs.DescribeSpotPriceHistoryRequest(region_id=front.region, network_type="vpc", instance_type="ecs.g7.large")
    spot = front.ecs().describe_spot_price_history(history).spot_prices.spot_price_type
    assert {p.zone_id[-1] for p in spot} == set("hijk")
    assert all(0 < p.spot_price < p.origin_price for p in spot)


def test_images_by_id_family_name_and_age(front):
    def images(**fields):
        found = front.ecs().describe_images(ecs.DescribeImagesRequest(region_id=front.region, page_size=100, **fields))
        return {i.image_id: i for i in found.images.image}

    assert images(image_id=f"{X64},{ARM64}").keys() == {X64, ARM64}
    assert images(architecture="arm64", image_owner_alias="system")[ARM64].architecture == "arm64"
    assert images(image_family="golden").keys() == {"m-simulated0custom"}
    assert images(image_family="golden", show_expired=True).keys() == {"m-simulated0custom", "m-simulated0old"}
    family = ecs.DescribeImageFromFamilyRequest(region_id=front.region, image_family="acs:alibaba_cloud_linux_3_2104_lts_x64")
    assert front.ecs().describe_image_from_family(family).image.image_id == X64
    made = front.ecs().create_image(ecs.CreateImageRequest(region_id=front.region, image_name="new", image_family="golden"))
    newest = ecs.DescribeImageFromFamilyRequest(region_id=front.region, image_family="golden")
    assert front.ecs().describe_image_from_family(newest).image.image_id == made.image_id


def test_security_groups_by_id_name_and_tag_in_pages(front):
    for number in range(12):
        front.ecs().create_security_group(ecs.CreateSecurityGroupRequest(
            region_id=front.region, vpc_id=front.vpc, security_group_name=f"g{number}",
            tag=[ecs.CreateSecurityGroupRequestTag(key="team", value="a")],
        ))
    tag = [ecs.DescribeSecurityGroupsRequestTag(key="team")]
    found, token = [], None
    while True:
        page = front.ecs().describe_security_groups(
            ecs.DescribeSecurityGroupsRequest(region_id=front.region, tag=tag, next_token=token))
        assert len(page.security_groups.security_group) <= 10
        found += [g.security_group_id for g in page.security_groups.security_group]
        token = page.next_token
        if not token:
            break
    assert len(set(found)) == 12
    named = ecs.DescribeSecurityGroupsRequest(region_id=front.region, security_group_name=f"{front.cluster}-node")
    assert front.ecs().describe_security_groups(named).security_groups.security_group[0].security_group_id == front.securityGroup
    bad = ecs.DescribeSecurityGroupsRequest(region_id=front.region, next_token="nonsense")
    refused(lambda: front.ecs().describe_security_groups(bad), "InvalidNextToken", 400)


def test_vswitches_in_numbered_pages(front):
    network = front.vpc_client().create_vpc(vpc.CreateVpcRequest(region_id=front.region, cidr_block="172.16.0.0/12")).vpc_id
    for number in range(23):
        front.vpc_client().create_vswitch(vpc.CreateVSwitchRequest(
            region_id=front.region, vpc_id=network, zone_id="cn-hangzhou-i", cidr_block=f"172.16.{number}.0/24"))
    pages = [
        front.vpc_client().describe_vswitches(
            vpc.DescribeVSwitchesRequest(region_id=front.region, vpc_id=network, page_number=number)).v_switches.v_switch
        for number in (1, 2, 3)
    ]
    assert [len(page) for page in pages] == [10, 10, 3]
    assert pages[0][0].available_ip_address_count == 252
    too_many = vpc.DescribeVSwitchesRequest(region_id=front.region, page_size=51)
    refused(lambda: front.vpc_client().describe_vswitches(too_many), "InvalidParameter", 400)
    found = front.vpc_client().describe_vpcs(vpc.DescribeVpcsRequest(region_id=front.region, vpc_id=network))
    assert found.vpcs.vpc[0].cidr_block == "172.16.0.0/12"


def test_vswitches_by_tag(front):
    id = vswitch(front)
    front.vpc_client().tag_resources(vpc.TagResourcesRequest(
        region_id=front.region, resource_type="VSWITCH", resource_id=[id], tag=[vpc.TagResourcesRequestTag(key="mine", value="1")]))
    for value in ("1", None):
        tag = vpc.DescribeVSwitchesRequestTag(key="mine", value=value)
        found = front.vpc_client().describe_vswitches(vpc.DescribeVSwitchesRequest(region_id=front.region, tag=[tag]))
        assert [v.v_switch_id for v in found.v_switches.v_switch] == [id]


# Machines


def test_the_life_of_a_machine(front):
    (id,) = run(front, tag=[ecs.RunInstancesRequestTag(key="kubernetes.io/cluster/c1", value="owned")], ram_role_name=front.workerRole)
    found = instances(front, id)[0]
    assert found.status in ("Pending", "Starting")
    assert len(found.creation_time) == len("2017-12-10T04:04Z")
    assert (found.instance_charge_type, found.spot_strategy) == ("PostPaid", "NoSpot")
    assert found.vpc_attributes.v_switch_id == vswitch(front)
    assert found.tags.tag[0].tag_key == "kubernetes.io/cluster/c1"
    roles = ecs.DescribeInstanceRamRoleRequest(region_id=front.region, instance_ids=json.dumps([id]))
    assert front.ecs().describe_instance_ram_role(roles).instance_ram_role_sets.instance_ram_role_set[0].ram_role_name == front.workerRole
    delete = ecs.DeleteInstanceRequest(instance_id=id, force=True)
    refused(lambda: front.ecs().delete_instance(delete), "IncorrectInstanceStatus.Initializing", 403)


def test_deletion_follows_its_rules(front):
    id = running(front)
    gentle = ecs.DeleteInstanceRequest(instance_id=id, force=False)
    refused(lambda: front.ecs().delete_instance(gentle), "IncorrectInstanceStatus", 403)
    front.ecs().modify_instance_attribute(ecs.ModifyInstanceAttributeRequest(instance_id=id, deletion_protection=True))
    delete = ecs.DeleteInstanceRequest(instance_id=id, force=True, terminate_subscription=True)
    refused(lambda: front.ecs().delete_instance(delete), "DeletionProtection", 403)
    front.ecs().modify_instance_attribute(ecs.ModifyInstanceAttributeRequest(instance_id=id, deletion_protection=False))
    front.control("POST", "times", {"stopping": 1})
    front.ecs().delete_instance(delete)
    assert instances(front, id)[0].status == "Stopping"
    until(lambda: not instances(front, id))
    refused(lambda: front.ecs().delete_instance(delete), "InvalidInstanceId.NotFound", 404)


def test_several_machines_are_deleted_at_once_or_none(front):
    one, other = running(front), running(front)
    both = ecs.DeleteInstancesRequest(region_id=front.region, instance_id=[one, "i-nobody"], force=True)
    refused(lambda: front.ecs().delete_instances(both), "InvalidInstanceId.NotFound", 404)
    assert instances(front, one)[0].status == "Running"
    front.ecs().delete_instances(ecs.DeleteInstancesRequest(region_id=front.region, instance_id=[one, other], force=True))
    until(lambda: not instances(front, one, other))


def test_a_client_token_launches_once(front):
    token = unique("token")
    first = run(front, client_token=token)
    assert run(front, client_token=token) == first
    refused(lambda: run(front, client_token=token, instance_type="ecs.c7.large"), "IdempotentParameterMismatch", 400)
    assert len(describe(front).instances.instance) == 1


def test_a_broken_connection_after_the_launch_is_mended_by_the_token(front):
    front.fault("RunInstances", "reset-after-commit")
    token = unique("token")
    try:
        run(front, client_token=token)
        raise AssertionError("the connection was not broken")
    except AssertionError:
        raise
    except Exception as error:
        assert getattr(error, "status_code", None) is None, error
    (id,) = [i.instance_id for i in describe(front).instances.instance]
    assert run(front, client_token=token) == [id]


def test_machines_are_listed_in_pages_and_by_tag(front):
    tag = [ecs.RunInstancesRequestTag(key="pool", value="a")]
    ids = set(run(front, amount=25, tag=tag))
    run(front)
    found, token = [], None
    while True:
        page = describe(front, tag=[ecs.DescribeInstancesRequestTag(key="pool", value="a")], max_results=10, next_token=token)
        found += [i.instance_id for i in page.instances.instance]
        token = page.next_token
        if not token:
            break
    assert len(found) == 25 and set(found) == ids
    assert len(describe(front).instances.instance) == 10
    assert len(describe(front, max_results=1).instances.instance) == 10, "less than ten is ten"


def test_what_disappears_between_pages_is_not_seen_twice(front):
    ids = sorted(run(front, amount=15))
    front.control("POST", "switches", {"vanish_between_pages": ids[:1]})
    page = describe(front, max_results=10)
    rest = describe(front, max_results=10, next_token=page.next_token)
    assert [i.instance_id for i in page.instances.instance + rest.instances.instance] == ids


def test_disks_are_as_asked(front):
    (id,) = run(
        front,
        system_disk=ecs.RunInstancesRequestSystemDisk(category="cloud_essd", size="120", performance_level="PL1", encrypted=True, kmskey_id="k-1"),
        data_disk=[ecs.RunInstancesRequestDataDisk(category="cloud_essd", size=200, performance_level="PL2", encrypted="true")],
    )
    disks = front.ecs().describe_disks(ecs.DescribeDisksRequest(region_id=front.region, instance_id=id)).disks.disk
    system = next(d for d in disks if d.type == "system")
    data = next(d for d in disks if d.type == "data")
    assert (system.size, system.performance_level, system.encrypted, system.kmskey_id) == (120, "PL1", True, "k-1")
    assert (data.size, data.performance_level, data.encrypted) == (200, "PL2", True)
    front.ecs().modify_disk_attribute(ecs.ModifyDiskAttributeRequest(disk_id=data.disk_id, delete_with_instance=False))
    disks = front.ecs().describe_disks(ecs.DescribeDisksRequest(region_id=front.region, disk_ids=json.dumps([data.disk_id])))
    assert disks.disks.disk[0].delete_with_instance is False


def test_what_does_not_fit_together_is_refused(front):
    disk = ecs.RunInstancesRequestSystemDisk
    refused(lambda: run(front, image_id="m-nobody"), "InvalidImageId.NotFound", 404)
    refused(lambda: run(front, image_id=ARM64), "InvalidInstanceType.NotSupported", 403)
    refused(lambda: run(front, v_switch_id="vsw-nobody"), "InvalidVSwitchId.NotFound", 404)
    refused(lambda: run(front, security_group_id="sg-nobody"), "InvalidSecurityGroupId.NotFound", 404)
    refused(lambda: run(front, system_disk=disk(category="cloud_efficiency", size="40")), "InvalidDiskCategory.NotSupported", 403)
    refused(lambda: run(front, system_disk=disk(category="cloud_essd", size="10")), "InvalidSystemDiskSize", 400)
    refused(lambda: run(front, ram_role_name="NotForMachines"), "InvalidRamRole.NotEcsRole", 403)
    refused(lambda: run(front, user_data="not base64!"), "InvalidUserData", 400)
    refused(lambda: run(front, user_data=base64.b64encode(b"x" * 40000).decode()), "InvalidUserData.SizeExceeded", 400)
    refused(lambda: run(front, key_pair_name="nobody"), "InvalidKeyPairName.NotFound", 404)
    assert not describe(front).instances.instance


def test_stock_addresses_and_quota_run_out(front):
    front.control("POST", "stock", {"zone": "cn-hangzhou-h", "stock": "WithoutStock"})
    refused(lambda: run(front), "OperationDenied.NoStock", 403)
    run(front, zone="i")
    front.control("DELETE", "stock")
    front.control("POST", "objects/vswitch", {"id": vswitch(front), "taken_by_others": 16379})
    run(front)
    refused(lambda: run(front), "InvalidVSwitchId.IpNotEnough", 403)
    front.control("POST", "switches", {"instance_quota": 2})
    refused(lambda: run(front, zone="i"), "QuotaExceed.ElasticQuota", 403)


def test_addresses_come_back(front):
    def free():
        request = vpc.DescribeVSwitchesRequest(region_id=front.region, v_switch_id=vswitch(front))
        return front.vpc_client().describe_vswitches(request).v_switches.v_switch[0].available_ip_address_count

    before = free()
    id = running(front)
    assert free() == before - 1
    front.ecs().delete_instance(ecs.DeleteInstanceRequest(instance_id=id, force=True))
    until(lambda: free() == before)


def test_tags_of_machines(front):
    (id,) = run(front)
    front.ecs().tag_resources(ecs.TagResourcesRequest(
        region_id=front.region, resource_type="instance", resource_id=[id], tag=[ecs.TagResourcesRequestTag(key="a", value="1")]))
    front.ecs().add_tags(ecs.AddTagsRequest(
        region_id=front.region, resource_type="instance", resource_id=id, tag=[ecs.AddTagsRequestTag(key="b", value="2")]))
    request = ecs.ListTagResourcesRequest(region_id=front.region, resource_type="instance", resource_id=[id])
    tags = front.ecs().list_tag_resources(request).tag_resources.tag_resource
    assert {(t.tag_key, t.tag_value) for t in tags} == {("a", "1"), ("b", "2")}
    front.ecs().untag_resources(ecs.UntagResourcesRequest(
        region_id=front.region, resource_type="instance", resource_id=[id], tag_key=["a"]))
    assert [t.tag_key for t in instances(front, id)[0].tags.tag] == ["b"]
    reserved = ecs.TagResourcesRequest(
        region_id=front.region, resource_type="instance", resource_id=[id], tag=[ecs.TagResourcesRequestTag(key="aliyun-x", value="1")])
    refused(lambda: front.ecs().tag_resources(reserved), "InvalidTagKey", 400)
    many = [ecs.TagResourcesRequestTag(key=f"k{n}", value="v") for n in range(20)]
    full = ecs.TagResourcesRequest(region_id=front.region, resource_type="instance", resource_id=[id], tag=many)
    refused(lambda: front.ecs().tag_resources(full), "InvalidTagCount", 400)


def test_user_data_is_kept(front):
    text = base64.b64encode(b"#!/bin/sh\necho hello\n").decode()
    (id,) = run(front, user_data=text)
    request = ecs.DescribeUserDataRequest(region_id=front.region, instance_id=id)
    assert front.ecs().describe_user_data(request).user_data == text


# Provisioning groups


def provision(front, configs, spot=False, **fields):
    config = ecs.CreateAutoProvisioningGroupRequestLaunchTemplateConfig
    launch = ecs.CreateAutoProvisioningGroupRequestLaunchConfiguration(
        image_id=X64, security_group_ids=[front.securityGroup], system_disk_size=40,
        tag=[ecs.CreateAutoProvisioningGroupRequestLaunchConfigurationTag(key="pool", value="a")],
    )
    request = ecs.CreateAutoProvisioningGroupRequest(
        region_id=front.region, auto_provisioning_group_type="instant", total_target_capacity="1",
        spot_target_capacity="1" if spot else "0", pay_as_you_go_target_capacity="0" if spot else "1",
        spot_allocation_strategy="lowest-price", pay_as_you_go_allocation_strategy="lowest-price",
        launch_configuration=launch,
        system_disk_config=[ecs.CreateAutoProvisioningGroupRequestSystemDiskConfig(disk_category="cloud_essd")],
        launch_template_config=[
            config(instance_type=name, v_switch_id=vswitch(front, zone), weighted_capacity=1) for name, zone in configs
        ],
        **fields,
    )
    return front.ecs().create_auto_provisioning_group(request).launch_results.launch_result


def test_a_group_takes_the_cheapest_that_there_is_and_tells_what_failed(front):
    front.control("POST", "stock", {"instance_type": "ecs.c7.large", "stock": "WithoutStock"})
    configs = [("ecs.r7.large", "h"), ("ecs.c7.large", "i"), ("ecs.g7.large", "j")]
    for first in (True, False):
        front.control("POST", "switches", {"failures_first": first})
        results = provision(front, configs)
        good = [r for r in results if r.instance_ids.instance_id]
        bad = [r for r in results if r.error_code]
        assert [(r.instance_type, r.zone_id) for r in good] == [("ecs.g7.large", "cn-hangzhou-j")]
        assert [(r.instance_type, r.error_code) for r in bad] == [("ecs.c7.large", "NoInstanceStock")]
        assert bool(results[0].error_code) == first
    found = instances(front, *good[0].instance_ids.instance_id)[0]
    assert found.tags.tag[0].tag_value == "a" and found.spot_strategy == "NoSpot"


def test_a_group_launches_spot_machines_and_says_so(front):
    (result,) = provision(front, [("ecs.g7.large", "h")], spot=True)
    assert result.spot_strategy == "SpotAsPriceGo"
    found = instances(front, *result.instance_ids.instance_id)[0]
    assert (found.instance_charge_type, found.spot_strategy) == ("PostPaid", "SpotAsPriceGo")


def test_a_group_without_any_stock_says_so_for_every_configuration(front):
    front.control("POST", "stock", {"stock": "WithoutStock"})
    results = provision(front, [("ecs.g7.large", "h"), ("ecs.g7.large", "i")])
    assert [r.error_code for r in results] == ["NoInstanceStock"] * 2


def test_a_group_is_made_once_per_client_token_and_has_at_most_twenty_configurations(front):
    token = unique("token")
    one = provision(front, [("ecs.g7.large", "h")], client_token=token)
    assert provision(front, [("ecs.g7.large", "h")], client_token=token)[0].instance_ids.instance_id == one[0].instance_ids.instance_id
    refused(lambda: provision(front, [("ecs.g7.large", "h")] * 21), "InvalidParameter", 400)


# Interruption


def test_a_spot_machine_is_warned_and_taken_back(front):
    id = running(front, spot_strategy="SpotAsPriceGo")
    begin = int(time.time()) - 60
    front.control("POST", "times", {"notice": 2})
    front.control("POST", f"interrupt/{id}")
    locked = describe(front, lock_reason="Recycling").instances.instance
    assert [i.instance_id for i in locked] == [id]
    assert locked[0].operation_locks.lock_reason[0].lock_reason == "Recycling"
    request = cms.DescribeSystemEventAttributeRequest(
        product="ECS", event_type="StatusNotification", name="Instance:PreemptibleInstanceInterruption",
        start_time=str(begin * 1000), end_time=str((begin + 3600) * 1000), page_size=100,
    )
    (event,) = front.cms().describe_system_event_attribute(request).system_events.system_event
    assert json.loads(event.content) == {"instanceId": id, "action": "delete"}
    assert event.resource_id.endswith(f"instance/{id}") and event.time > begin * 1000
    until(lambda: not instances(front, id))


def test_planned_maintenance_is_told(front):
    id = running(front)
    front.control("POST", "maintenance", {
        "instance": id, "event_type": "SystemMaintenance.Reboot", "not_before": "2030-01-01T00:00:00Z", "reason": "hardware"})
    request = ecs.DescribeInstancesFullStatusRequest(region_id=front.region, event_type="SystemMaintenance.Reboot")
    (status,) = front.ecs().describe_instances_full_status(request).instance_full_status_set.instance_full_status_type
    event = status.scheduled_system_event_set.scheduled_system_event_type[0]
    assert (status.instance_id, event.not_before) == (id, "2030-01-01T00:00:00Z")


def test_a_machine_uses_a_reservation_and_says_which(front):
    front.control("POST", "objects/reservation", {
        "id": "crp-1", "instance_type": "ecs.g7.large", "zone": "cn-hangzhou-h", "total": 2, "tags": {"team": "a"}})
    request = ecs.DescribeCapacityReservationsRequest(
        region_id=front.region, tag=[ecs.DescribeCapacityReservationsRequestTag(key="team", value="a")])

    def amounts():
        (found,) = front.ecs().describe_capacity_reservations(request).capacity_reservation_set.capacity_reservation_item
        assert (found.private_pool_options_id, found.status) == ("crp-1", "Active")
        (resource,) = found.allocated_resources.allocated_resource
        assert (resource.instance_type, resource.zone_id) == ("ecs.g7.large", "cn-hangzhou-h")
        return resource.total_amount, resource.used_amount, resource.available_amount

    assert amounts() == (2, 0, 2)
    pool = ecs.RunInstancesRequestPrivatePoolOptions(match_criteria="Target", id="crp-1")
    (id,) = run(front, private_pool_options=pool)
    assert instances(front, id)[0].ecs_capacity_reservation_attr.capacity_reservation_id == "crp-1"
    assert amounts() == (2, 1, 1)
    run(front, private_pool_options=pool)
    refused(lambda: run(front, private_pool_options=pool), "InvalidPrivatePoolOptions.NoStock", 403)
    (other,) = run(front)
    assert not instances(front, other)[0].ecs_capacity_reservation_attr.capacity_reservation_id


# Message queues


def test_a_message_is_received_by_one_and_deleted_by_its_receipt(front):
    front.control("POST", "objects/queue", {"name": "warnings", "visibility_seconds": 1})
    queue = front.queue("warnings")
    sent = queue.send_message(Message('{"a": "<&>"}'))
    first = queue.receive_message_with_str_body()
    assert (first.message_id, first.message_body, first.dequeue_count) == (sent.message_id, '{"a": "<&>"}', 1)
    refused(lambda: queue.receive_message(), "MessageNotExist")
    second = queue.receive_message_with_str_body(wait_seconds=5)
    assert (second.message_id, second.dequeue_count) == (sent.message_id, 2)
    refused(lambda: queue.delete_message(first.receipt_handle), "MessageNotExist")
    queue.delete_message(second.receipt_handle)
    assert front.control("GET", "queues")[0]["messages"] == []


def test_many_messages_come_at_once_and_those_that_are_not_base64_as_they_are(front):
    front.control("POST", "objects/queue", {"name": "warnings"})
    queue = front.queue("warnings")
    queue.set_encoding(False)
    for number in range(3):
        queue.send_message(Message(f"<{number}>"))
    found = queue.batch_receive_message(16)
    assert [message.message_body for message in found] == ["<0>", "<1>", "<2>"]
    for message in found:
        queue.delete_message(message.receipt_handle)
    refused(lambda: queue.batch_receive_message(16, wait_seconds=1), "MessageNotExist")


def test_the_warning_of_a_spot_machine_is_delivered_to_the_queue(front):
    id = running(front, spot_strategy="SpotAsPriceGo")
    front.control("POST", "objects/queue", {"name": "warnings", "hears_events": True})
    front.control("POST", f"interrupt/{id}")
    (message,) = front.queue("warnings").batch_receive_message_with_str_body(16, wait_seconds=5)
    event = json.loads(message.message_body)
    assert (event["name"], event["product"]) == ("Instance:PreemptibleInstanceInterruption", "ECS")
    assert event["content"] == {"instanceId": id, "action": "delete"}
    assert event["resourceId"].endswith(f"instance/{id}")


def test_queues_refuse_others_and_say_what_is_missing(front):
    refused(lambda: front.queue("nowhere").receive_message(), "QueueNotExist")
    front.control("POST", "objects/queue", {"name": "warnings"})
    refused(lambda: front.queue("warnings", secret="wrong").receive_message(), "SignatureDoesNotMatch")
    refused(lambda: front.queue("warnings", key="nobody").receive_message(), "InvalidAccessKeyId")
    given = assume(front)
    session = {"key": given.access_key_id, "secret": given.access_key_secret, "token": given.security_token}
    front.queue("warnings", **session).send_message(Message("a"))
    refused(lambda: front.queue("warnings", **{**session, "token": "x"}).receive_message(), "InvalidSecurityToken")
    policy = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mns:ReceiveMessage", "Resource": "*"}]}
    front.control("POST", "policy", {"key": front.key, "policy": policy})
    (message,) = front.queue("warnings").batch_receive_message(16)
    refused(lambda: front.queue("warnings").delete_message(message.receipt_handle), "AccessDenied")


# Clusters


def test_a_cluster_is_described(front):
    detail = front.cs().describe_cluster_detail(front.cluster)
    assert json.loads(detail.meta_data)["Capabilities"]["Network"] == "terway-eniip"
    assert detail.vpc_id == front.vpc and detail.current_version.startswith("1.32")
    pools = front.cs().describe_cluster_node_pools(front.cluster, cs.DescribeClusterNodePoolsRequest()).nodepools
    assert [p.kubernetes_config.runtime for p in pools if p.nodepool_info.is_default] == ["containerd"]
    addon = front.cs().get_cluster_addon_instance(front.cluster, "terway-eniip")
    assert "ENITrunking" in addon.config
    refused(lambda: front.cs().get_cluster_addon_instance(front.cluster, "kube-flannel-ds"), "NotFound", 404)
    refused(lambda: front.cs().describe_cluster_detail("cnobody"), "NotFound", 404)


def test_versions_tell_images_and_runtimes(front):
    request = cs.DescribeKubernetesVersionMetadataRequest(
        region=front.region, cluster_type="ManagedKubernetes", kubernetes_version="1.32.1-aliyun.1")
    (version,) = front.cs().describe_kubernetes_version_metadata(request)
    ids = {image.image_id for image in version.images}
    assert {X64, ARM64} <= ids and any(i.image_name.startswith("ContainerOS") for i in version.images)
    assert version.runtimes[0].name == "containerd"


def attach(front, **fields):
    return front.cs().describe_cluster_attach_scripts(front.cluster, cs.DescribeClusterAttachScriptsRequest(**fields))


def test_the_attach_script_is_text_with_a_carriage_return(front):
    script = attach(front, keep_instance_name=True, format_disk=False)
    assert script.endswith("\r\n") and "--token" in script and "--runtime containerd" in script
    (record,) = front.control("GET", "requests?action=DescribeClusterAttachScripts")
    assert json.loads(record["body"]) == {"format_disk": False, "keep_instance_name": True}


def test_a_machine_with_the_attach_script_becomes_a_node(front):
    script = "#!/bin/bash\n" + attach(front).strip() + " --labels a=b --taints karpenter.sh/unregistered:NoExecute\n"
    id = running(front, user_data=base64.b64encode(script.encode()).decode())
    node = until(lambda: next(i["node_name"] for i in front.control("GET", "instances") if i["id"] == id))
    assert node.startswith(f"{front.region}.10.")


# Credentials


def assume(front, token=None, **fields):
    request = sts.AssumeRoleWithOIDCRequest(**{
        "role_arn": front.controllerRoleArn, "oidcprovider_arn": front.oidcProviderArn,
        "oidctoken": token or front.token(), "role_session_name": "karpenter", "duration_seconds": 900, **fields,
    })
    return front.sts().assume_role_with_oidc(request).credentials


def test_a_token_gives_credentials_that_work_until_they_expire(front):
    given = assume(front)
    session = {"key": given.access_key_id, "secret": given.access_key_secret, "token": given.security_token}
    assert front.sts(**session).get_caller_identity().identity_type == "AssumedRoleUser"
    request = ecs.DescribeZonesRequest(region_id=front.region)
    front.ecs(**session).describe_zones(request)
    mismatch = {**session, "token": "another"}
    refused(lambda: front.ecs(**mismatch).describe_zones(request), "InvalidSecurityToken", 400)
    front.control("POST", f"expire/{given.access_key_id}")
    refused(lambda: front.ecs(**session).describe_zones(request), "InvalidSecurityToken.Expired", 403)


def test_credentials_live_as_short_as_wanted(front):
    front.control("POST", "switches", {"session_seconds": 1})
    given = assume(front)
    session = {"key": given.access_key_id, "secret": given.access_key_secret, "token": given.security_token}
    request = ecs.DescribeZonesRequest(region_id=front.region)
    time.sleep(1.1)
    refused(lambda: front.ecs(**session).describe_zones(request), "InvalidSecurityToken.Expired", 403)


def test_tokens_of_others_are_refused(front):
    refused(lambda: assume(front, front.token(aud="kubernetes")), "AudienceMismatch")
    refused(lambda: assume(front, front.token(iss="https://else.where")), "IssuerMismatch")
    refused(lambda: assume(front, front.token(exp=1)), "OIDCToken.Expired")
    refused(lambda: assume(front, front.token(sub="system:serviceaccount:default:default")), "NoPermission", 403)
    refused(lambda: assume(front, "nonsense"), "OIDCToken.Invalid")
    refused(lambda: assume(front, duration_seconds=60), "DurationSeconds", 400)
    refused(lambda: assume(front, role_arn="acs:ram::1:role/nobody"), "EntityNotExist.Role", 404)


def test_roles_tell_whom_they_trust(front):
    def trust(name):
        role = front.ram().get_role(ram.GetRoleRequest(role_name=name)).role
        return [s["Principal"].get("Service", []) for s in json.loads(role.assume_role_policy_document)["Statement"]]

    assert trust(front.workerRole) == [["ecs.aliyuncs.com"]]
    assert trust("NotForMachines") == [["fc.aliyuncs.com"]]
    refused(lambda: trust("nobody"), "EntityNotExist.Role", 404)


def test_a_policy_allows_exactly_its_actions(front):
    policy = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": ["ecs:Describe*", "cs:DescribeClusterDetail"], "Resource": "*"}]}
    front.control("POST", "policy", {"key": front.key, "policy": policy})
    front.ecs().describe_zones(ecs.DescribeZonesRequest(region_id=front.region))
    front.cs().describe_cluster_detail(front.cluster)
    refused(lambda: run(front), "Forbidden.RAM", 403)
    refused(lambda: attach(front), "Forbidden.RAM", 403)
    refused(lambda: front.ram().get_role(ram.GetRoleRequest(role_name="x")), "NoPermission", 403)
    front.control("POST", "policy", {"key": front.key, "policy": None})
    run(front)


def test_the_metadata_service(front):
    assert front.http("GET", "/latest/meta-data/region-id") == (200, front.region)
    front.control("POST", "switches", {"metadata_token_required": True})
    assert front.http("GET", "/latest/meta-data/region-id")[0] == 403
    status, token = front.http("PUT", "/latest/api/token", headers={"X-aliyun-ecs-metadata-token-ttl-seconds": "60"})
    headers = {"X-aliyun-ecs-metadata-token": token}
    assert status == 200 and front.http("GET", "/latest/meta-data/region-id", headers=headers) == (200, front.region)
    front.control("POST", "metadata", {"instance": None, "role": front.workerRole})
    path = "/latest/meta-data/ram/security-credentials/"
    assert front.http("GET", path, headers=headers) == (200, front.workerRole)
    given = json.loads(front.http("GET", path + front.workerRole, headers=headers)[1])
    session = {"key": given["AccessKeyId"], "secret": given["AccessKeySecret"], "token": given["SecurityToken"]}
    front.ecs(**session).describe_zones(ecs.DescribeZonesRequest(region_id=front.region))
    assert front.http("GET", "/latest/meta-data/instance/spot/termination-time", headers=headers)[0] == 404


# Faults


def test_throttling_comes_with_and_without_a_time(front):
    request = ecs.DescribeZonesRequest(region_id=front.region)
    front.fault("DescribeZones", "throttle")
    refused(lambda: front.ecs().describe_zones(request), "Throttling.User", 400)
    front.fault("DescribeZones", "throttle", retry_after=2)
    error = refused(lambda: front.ecs().describe_zones(request), "Throttling.User", 400)
    assert "Throttling" in type(error).__name__ and error.retry_after == 2
    front.ecs().describe_zones(request)


def test_failures_of_the_service(front):
    request = ecs.DescribeZonesRequest(region_id=front.region)
    front.fault("DescribeZones", "internal-error")
    refused(lambda: front.ecs().describe_zones(request), "InternalError", 500)
    front.fault("*", "unavailable")
    refused(lambda: front.ecs().describe_zones(request), "ServiceUnavailable", 503)
    front.fault("DescribeZones", "refuse", status=403, code="InsufficientBalance", message="no money")
    refused(lambda: front.ecs().describe_zones(request), "InsufficientBalance", 403)
    counts = front.control("GET", "counts")["DescribeZones"]
    assert (counts["total"], counts["refused"]) == (3, 3)


def test_answers_that_are_late_malformed_or_bare(front):
    request = ecs.DescribeZonesRequest(region_id=front.region)
    front.fault("DescribeZones", "slow", milliseconds=300)
    begin = time.monotonic()
    front.ecs().describe_zones(request)
    assert time.monotonic() - begin >= 0.3
    front.fault("DescribeZones", "malformed-json")
    try:
        front.ecs().describe_zones(request)
        raise AssertionError("malformed JSON was read")
    except AssertionError:
        raise
    except Exception:  # Whatever the SDK makes of it.
        pass
    (id,) = run(front)
    front.fault("DescribeInstances", "missing-fields")
    (bare,) = instances(front, id)
    assert bare.instance_id == id and bare.status is None and bare.creation_time is None


def test_reads_may_be_stale(front):
    front.control("POST", "switches", {"stale_reads_seconds": 1})
    (id,) = run(front)
    assert not instances(front, id)
    until(lambda: instances(front, id))


def test_a_rate_beyond_its_limit_is_refused(front):
    front.control("POST", "switches", {"per_minute": {"DescribeZones": 2}})
    request = ecs.DescribeZonesRequest(region_id=front.region)
    # A new minute may begin meanwhile, but not three times.
    outcomes = []
    for _ in range(8):
        try:
            front.ecs().describe_zones(request)
            outcomes.append("")
        except Exception as error:
            outcomes.append(error.code)
    assert "Throttling.User" in outcomes, outcomes
    assert front.control("GET", "counts")["DescribeZones"]["most_per_second"] >= 1


def test_stock_may_fail_by_chance(front):
    front.control("POST", "switches", {"no_stock_per_mille": 1000})
    refused(lambda: run(front), "OperationDenied.NoStock", 403)


def main(program):
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        try:
            with Front(program) as front:
                test(front)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")
    result = "FAILED" if failed else "ok"
    print(f"test result: {result}. {len(tests) - failed} passed; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
