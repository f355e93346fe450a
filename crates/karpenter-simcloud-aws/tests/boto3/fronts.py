"""Exercises the simulated AWS with boto3, an independent client, and compares it with moto where moto is realistic.

Usage: fronts.py PROGRAM, which serves the front and prints its address. Prints one line per check and a summary in the style of
cargo's tests.
"""

import base64
import datetime
import json
import logging
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, HTTPClientError
from moto.server import ThreadedMotoServer

REGION = "us-west-2"
KEYS = {"aws_access_key_id": "AKIASIMULATED0000001", "aws_secret_access_key": "simulated-secret"}
CLUSTER = "local"
ONCE = Config(retries={"total_max_attempts": 1, "mode": "standard"})

FRONT = MOTO = ""
CHECKS = []


def check(function):
    """Registers a check; its name is a sentence."""
    CHECKS.append(function)
    return function


def client(service, url=None, **keywords):
    keys = {**KEYS, **keywords}
    return boto3.client(service, endpoint_url=url or FRONT, region_name=REGION, config=ONCE, **keys)


def code_of(call, *arguments, **keywords):
    """The code of the error a call ends with, and its status."""
    try:
        call(*arguments, **keywords)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
    raise AssertionError("the call succeeded")


def control(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{FRONT}/_simulated/{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.loads(response.read())


def same(ours, theirs):
    assert ours == theirs, f"\n    ours:   {ours}\n    theirs: {theirs}"


def until(sentence, condition, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds} s: {sentence}")


def shape(value):
    """What a value is made of: its types, by name."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


# --- who signs -------------------------------------------------------------------------------------------------------


@check
def wrong_keys_are_refused_in_each_dialect():
    secret = {"aws_secret_access_key": "wrong"}
    unknown = {"aws_access_key_id": "AKIAUNKNOWN"}
    same(code_of(client("ec2", **secret).describe_subnets), ("SignatureDoesNotMatch", 403))
    same(code_of(client("ec2", **unknown).describe_subnets), ("AuthFailure", 401))
    same(code_of(client("sts", **secret).get_caller_identity), ("SignatureDoesNotMatch", 403))
    same(code_of(client("sts", **unknown).get_caller_identity), ("InvalidClientTokenId", 403))
    same(code_of(client("ssm", **secret).get_parameter, Name="x")[0], "InvalidSignatureException")
    same(code_of(client("ssm", **unknown).get_parameter, Name="x")[0], "UnrecognizedClientException")


def signed(body, region=REGION, service="ec2"):
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = botocore.awsrequest.AWSRequest("POST", FRONT + "/", headers=headers, data=body)
    keys = botocore.credentials.Credentials(KEYS["aws_access_key_id"], KEYS["aws_secret_access_key"])
    botocore.auth.SigV4Auth(keys, service, region).add_auth(request)
    return request


def post(request, body=None):
    data = (body or request.data).encode() if isinstance(body or request.data, str) else (body or request.data)
    sent = urllib.request.Request(request.url, data=data, headers=dict(request.headers), method="POST")
    try:
        with urllib.request.urlopen(sent, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@check
def a_body_that_was_changed_on_the_way_is_refused():
    body = "Action=DescribeSubnets&Version=2016-11-15"
    assert post(signed(body))[0] == 200
    status, text = post(signed(body), body + "&MaxResults=5")
    assert status == 403 and "SignatureDoesNotMatch" in text, (status, text)


@check
def a_clock_that_is_wrong_is_refused_and_learns_the_time():
    real = botocore.auth.get_current_datetime
    late = real() - datetime.timedelta(minutes=10)
    botocore.auth.get_current_datetime = lambda *_, **__: late
    try:
        request = signed("Action=GetCallerIdentity&Version=2011-06-15", service="sts")
    finally:
        botocore.auth.get_current_datetime = real
    status, text = post(request)
    assert status == 403 and "Signature expired" in text, (status, text)


@check
def roles_are_taken_on_and_their_keys_work():
    sts = client("sts")
    role = "arn:aws:iam::123456789012:role/karpenter"
    first = sts.assume_role(RoleArn=role, RoleSessionName="one")["Credentials"]
    keys = {
        "aws_access_key_id": first["AccessKeyId"],
        "aws_secret_access_key": first["SecretAccessKey"],
        "aws_session_token": first["SessionToken"],
    }
    same(client("sts", **keys).get_caller_identity()["Arn"], "arn:aws:sts::123456789012:assumed-role/karpenter/one")
    same(code_of(client("sts", **{**keys, "aws_session_token": "else"}).get_caller_identity)[0], "InvalidClientTokenId")
    web = sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="two", WebIdentityToken="a-token")
    theirs = client("sts", MOTO).assume_role_with_web_identity(RoleArn=role, RoleSessionName="two", WebIdentityToken="a-token")
    same(sorted(web["Credentials"]), sorted(theirs["Credentials"]))


# --- what there is before a launch ------------------------------------------------------------------------------------


@check
def subnets_and_groups_are_found_by_tags_with_wildcards():
    ec2 = client("ec2")
    by_tag = ec2.describe_subnets(Filters=[{"Name": "tag:Name", "Values": ["123456789012-private*"]}])["Subnets"]
    same(len(by_tag), 4)
    same(len(ec2.describe_subnets(Filters=[{"Name": "tag-key", "Values": ["karpenter.sh/discovery"]}])["Subnets"]), 4)
    ids = [subnet["SubnetId"] for subnet in by_tag]
    same(len(ec2.describe_subnets(SubnetIds=ids[:2])["Subnets"]), 2)
    same(code_of(ec2.describe_subnets, SubnetIds=["subnet-0"]), ("InvalidSubnetID.NotFound", 400))
    pages = list(ec2.get_paginator("describe_subnets").paginate(PaginationConfig={"PageSize": 5}))
    same([len(page["Subnets"]) for page in pages], [5, 3])
    groups = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["local-*"]}])["SecurityGroups"]
    same([group["GroupName"] for group in groups], ["local-node"])
    same(code_of(ec2.describe_subnets, Filters=[{"Name": "no-such", "Values": ["x"]}])[0], "InvalidParameterValue")


@check
def subnets_have_the_fields_that_moto_answers():
    theirs = client("ec2", MOTO).describe_subnets()["Subnets"][0]
    ours = client("ec2").describe_subnets()["Subnets"][0]
    missing = set(theirs) - set(ours) - {"Ipv6CidrBlockAssociationSet", "Ipv6Native", "Tags"}
    missing -= {"EnableDns64", "PrivateDnsNameOptionsOnLaunch", "MapCustomerOwnedIpOnLaunch", "CustomerOwnedIpv4Pool"}
    same(missing, set())


@check
def zones_types_and_offerings_are_motos():
    ours, theirs = client("ec2"), client("ec2", MOTO)
    zones = lambda ec2: sorted((z["ZoneName"], z["ZoneId"]) for z in ec2.describe_availability_zones()["AvailabilityZones"])
    same(zones(ours), zones(theirs))
    rows = ours.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
    found = {(row["InstanceType"], row["Location"]) for page in rows for row in page["InstanceTypeOfferings"]}
    told = theirs.describe_instance_type_offerings(LocationType="availability-zone")["InstanceTypeOfferings"]
    same(found, {(row["InstanceType"], row["Location"]) for row in told})
    names = ["m5.large", "g5.12xlarge", "p5.48xlarge", "i4i.metal", "t4g.nano", "inf2.48xlarge", "m8g.xlarge"]
    mine = {info["InstanceType"]: info for info in ours.describe_instance_types(InstanceTypes=names)["InstanceTypes"]}
    for info in theirs.describe_instance_types(InstanceTypes=names)["InstanceTypes"]:
        compare_type(mine[info["InstanceType"]], info)


def compare_type(ours, theirs):
    fields = [
        "SupportedUsageClasses", "BareMetal", "Hypervisor", "ProcessorInfo", "MemoryInfo", "NitroEnclavesSupport",
        "CurrentGeneration", "SupportedVirtualizationTypes", "BurstablePerformanceSupported", "InstanceStorageSupported",
    ]
    for field in fields:
        same((field, ours.get(field)), (field, theirs.get(field)))
    same(ours["VCpuInfo"]["DefaultVCpus"], theirs["VCpuInfo"]["DefaultVCpus"])
    for field in ["MaximumNetworkInterfaces", "Ipv4AddressesPerInterface", "DefaultNetworkCardIndex", "EnaSupport",
                  "EfaInfo", "EncryptionInTransitSupported"]:
        same((field, ours["NetworkInfo"].get(field)), (field, theirs["NetworkInfo"].get(field)))
    cards = lambda info: [(c["NetworkCardIndex"], c["MaximumNetworkInterfaces"]) for c in info["NetworkInfo"]["NetworkCards"]]
    same(cards(ours), cards(theirs))
    gpus = lambda info: [(g["Name"], g["Manufacturer"], g["Count"], g["MemoryInfo"]["SizeInMiB"])
                         for g in info.get("GpuInfo", {}).get("Gpus", [])]
    same(gpus(ours), gpus(theirs))
    devices = lambda info: [(d["Name"], d["Count"], d["CoreInfo"]["Count"])
                            for d in info.get("NeuronInfo", {}).get("NeuronDevices", [])]
    same(devices(ours), devices(theirs))
    store = lambda info: info.get("InstanceStorageInfo", {}).get("TotalSizeInGB")
    same(store(ours), store(theirs))


@check
def all_types_come_in_pages_of_a_hundred():
    ec2 = client("ec2")
    filters = [{"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
               {"Name": "supported-virtualization-type", "Values": ["hvm"]}]
    pages = list(ec2.get_paginator("describe_instance_types").paginate(Filters=filters, PaginationConfig={"PageSize": 100}))
    assert all(len(page["InstanceTypes"]) <= 100 for page in pages)
    names = [info["InstanceType"] for page in pages for info in page["InstanceTypes"]]
    assert len(names) == len(set(names)) and len(names) > 1200, len(names)
    same(code_of(ec2.describe_instance_types, DryRun=True), ("DryRunOperation", 412))


@check
def aliases_name_images_that_are_there():
    ssm, ec2 = client("ssm"), client("ec2")
    base = "/aws/service"
    for path in [f"{base}/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id",
                 f"{base}/eks/optimized-ami/1.34/amazon-linux-2023/arm64/nvidia/recommended/image_id",
                 f"{base}/bottlerocket/aws-k8s-1.34/arm64/latest/image_id",
                 f"{base}/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"]:
        value = ssm.get_parameter(Name=path)["Parameter"]["Value"]
        image = ec2.describe_images(ImageIds=[value])["Images"][0]
        assert image["State"] == "available" and image["DeprecationTime"] > image["CreationDate"], image
    same(code_of(ssm.get_parameter, Name="/no/such"), ("ParameterNotFound", 400))
    same(code_of(client("ssm", MOTO).get_parameter, Name="/no/such"), ("ParameterNotFound", 400))
    found = ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "name", "Values": ["*al2023-arm64-standard-1.34*"]}])
    same(len(found["Images"]), 3)
    same(code_of(ec2.describe_images, ImageIds=["ami-0"])[0], "InvalidAMIID.NotFound")


@check
def a_deprecated_image_is_seen_only_by_those_who_ask():
    ec2 = client("ec2")
    filters = [{"Name": "name", "Values": ["*al2023-x86_64-neuron-1.29-*"]}]
    images = ec2.describe_images(Filters=filters)["Images"]
    control("POST", "happenings", {"kind": "deprecation", "image": images[0]["ImageId"]})
    same(len(ec2.describe_images(Filters=filters)["Images"]), len(images) - 1)
    same(len(ec2.describe_images(Filters=filters, IncludeDeprecated=True)["Images"]), len(images))


@check
def the_cluster_is_described_as_moto_describes_one():
    theirs = client("eks", MOTO)
    theirs.create_cluster(name=CLUSTER, roleArn="arn:aws:iam::123456789012:role/c", version="1.34",
                          resourcesVpcConfig={"subnetIds": ["subnet-1", "subnet-2"]})
    told = theirs.describe_cluster(name=CLUSTER)["cluster"]
    ours = client("eks").describe_cluster(name=CLUSTER)["cluster"]
    for field in ["name", "arn", "version", "status", "endpoint", "certificateAuthority", "kubernetesNetworkConfig"]:
        same((field, shape(ours[field]).__class__), (field, shape(told[field]).__class__))
    same(ours["arn"], told["arn"])
    same(code_of(client("eks").describe_cluster, name="no"), code_of(theirs.describe_cluster, name="no"))


@check
def zonal_shifts_are_told():
    zonal = client("arc-zonal-shift")
    arn = f"arn:aws:eks:{REGION}:123456789012:cluster/{CLUSTER}"
    same(zonal.get_managed_resource(resourceIdentifier=arn)["zonalShifts"], [])
    control("POST", "happenings", {"kind": "zonalShift", "zone": "usw2-az1", "seconds": 60})
    shift = zonal.get_managed_resource(resourceIdentifier=arn)["zonalShifts"][0]
    same((shift["awayFrom"], shift["appliedStatus"]), ("usw2-az1", "APPLIED"))
    same(code_of(zonal.get_managed_resource, resourceIdentifier=arn + "x")[0], "ResourceNotFoundException")


@check
def instance_profiles_behave_as_motos():
    def life(url):
        iam = client("iam", url)
        if url == MOTO:
            iam.create_role(RoleName="KarpenterNodeRole-local", AssumeRolePolicyDocument="{}")
        path = f"/karpenter/{REGION}/{CLUSTER}/uid/"
        name = {"InstanceProfileName": "profile"}
        role = {"RoleName": "KarpenterNodeRole-local"}
        tags = [{"Key": "a", "Value": "b"}]
        told = [code_of(iam.get_instance_profile, **name)]
        created = iam.create_instance_profile(**name, Path=path, Tags=tags)["InstanceProfile"]
        told += [created["Path"], created["Tags"], created["Arn"], created["Roles"]]
        told += [code_of(iam.create_instance_profile, **name)]
        told += [code_of(iam.add_role_to_instance_profile, **name, RoleName="missing")]
        iam.add_role_to_instance_profile(**name, **role)
        told += [code_of(iam.add_role_to_instance_profile, **name, **role)]
        found = iam.get_instance_profile(**name)["InstanceProfile"]
        told += [[(r["RoleName"], r["Arn"]) for r in found["Roles"]]]
        told += [code_of(iam.delete_instance_profile, **name)]
        iam.remove_role_from_instance_profile(**name, **role)
        iam.tag_instance_profile(**name, Tags=[{"Key": "c", "Value": "d"}])
        told += [sorted(tag["Key"] for tag in iam.get_instance_profile(**name)["InstanceProfile"]["Tags"])]
        iam.delete_instance_profile(**name)
        told += [code_of(iam.delete_instance_profile, **name)]
        told += [iam.get_role(**role)["Role"]["Arn"], code_of(iam.get_role, RoleName="missing")]
        return told

    for mine, theirs in zip(life(FRONT), life(MOTO), strict=True):
        same(mine, theirs)


@check
def profiles_are_listed_below_a_path_and_in_pages():
    iam = client("iam")
    for number in range(5):
        iam.create_instance_profile(InstanceProfileName=f"listed-{number}", Path=f"/karpenter/{REGION}/other/{number}/")
    pages = iam.get_paginator("list_instance_profiles")
    pages = list(pages.paginate(PathPrefix=f"/karpenter/{REGION}/other/", PaginationConfig={"PageSize": 2}))
    same([len(page["InstanceProfiles"]) for page in pages], [2, 2, 1])
    same(iam.list_instance_profiles(PathPrefix="/nobody/")["InstanceProfiles"], [])


# --- launches ----------------------------------------------------------------------------------------------------------

NODE_CONFIG = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: local, apiServerEndpoint: "https://x", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet:
    config: {maxPods: 29}
--//--
"""


def image(architecture="x86_64"):
    path = f"/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/{architecture}/standard/recommended/image_id"
    return client("ssm").get_parameter(Name=path)["Parameter"]["Value"]


def private_subnets():
    filters = [{"Name": "tag-key", "Values": ["karpenter.sh/discovery"]}]
    subnets = client("ec2").describe_subnets(Filters=filters)["Subnets"]
    return {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in subnets}


def node_group():
    filters = [{"Name": "group-name", "Values": ["local-node"]}]
    return client("ec2").describe_security_groups(Filters=filters)["SecurityGroups"][0]["GroupId"]


def template(name, **data):
    iam = client("iam")
    try:
        iam.create_instance_profile(InstanceProfileName="nodes")
        iam.add_role_to_instance_profile(InstanceProfileName="nodes", RoleName="KarpenterNodeRole-local")
    except ClientError:
        pass
    whole = {
        "ImageId": image(),
        "UserData": base64.b64encode(NODE_CONFIG.encode()).decode(),
        "IamInstanceProfile": {"Name": "nodes"},
        "Monitoring": {"Enabled": True},
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 50, "VolumeType": "gp3", "Encrypted": True, "Iops": 3000}}
        ],
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [node_group()], "AssociatePublicIpAddress": False}],
        "TagSpecifications": [{"ResourceType": "spot-instances-request", "Tags": [{"Key": "of", "Value": "request"}]}],
        **data,
    }
    tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}]
    return client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=whole, TagSpecifications=tags)


def fleet(name, overrides, total=1, kind="on-demand", strategy=None, **more):
    options = {}
    if strategy:
        options = {("SpotOptions" if kind == "spot" else "OnDemandOptions"): {"AllocationStrategy": strategy}}
    configs = [{"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"}, "Overrides": overrides}]
    return client("ec2").create_fleet(
        Type="instant",
        LaunchTemplateConfigs=configs,
        TargetCapacitySpecification={"TotalTargetCapacity": total, "DefaultTargetCapacityType": kind},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "karpenter.sh/nodepool", "Value": name}]}],
        **options, **more)


@check
def launch_templates_behave_as_motos():
    def life(url):
        ec2 = client("ec2", url)
        data = {"ImageId": "ami-12345678", "UserData": "Zm9v"}
        told = [code_of(ec2.describe_launch_templates, LaunchTemplateNames=["karpenter.k8s.aws/1"])]
        tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "k", "Value": "v"}]}]
        made = ec2.create_launch_template(LaunchTemplateName="karpenter.k8s.aws/1", LaunchTemplateData=data, TagSpecifications=tags)
        told += [made["LaunchTemplate"]["LaunchTemplateName"], made["LaunchTemplate"]["LatestVersionNumber"]]
        told += [code_of(ec2.create_launch_template, LaunchTemplateName="karpenter.k8s.aws/1", LaunchTemplateData=data)]
        told += [code_of(ec2.create_launch_template, LaunchTemplateName="other", LaunchTemplateData=data, DryRun=True)]
        filters = [{"Name": "tag:k", "Values": ["v"]}]
        found = ec2.describe_launch_templates(Filters=filters)["LaunchTemplates"]
        told += [[(t["LaunchTemplateName"], t["Tags"]) for t in found]]
        ec2.delete_launch_template(LaunchTemplateId=made["LaunchTemplate"]["LaunchTemplateId"])
        told += [ec2.describe_launch_templates(Filters=filters)["LaunchTemplates"]]
        return told

    for mine, theirs in zip(life(FRONT), life(MOTO), strict=True):
        same(mine, theirs)
    # moto names these two wrongly.
    ec2 = client("ec2")
    same(code_of(ec2.delete_launch_template, LaunchTemplateName="karpenter.k8s.aws/1")[0],
         "InvalidLaunchTemplateName.NotFoundException")
    same(code_of(ec2.delete_launch_template, LaunchTemplateId="lt-0")[0], "InvalidLaunchTemplateId.NotFound")


@check
def user_data_has_a_limit():
    long = base64.b64encode(b"x" * 16385).decode()
    same(code_of(template, "too-long", UserData=long)[0], "InvalidUserData.Malformed")


@check
def a_fleet_takes_the_cheapest_and_everything_from_the_template():
    template("cheapest")
    subnets = private_subnets()
    zone = sorted(subnets)[0]
    overrides = [{"InstanceType": kind, "SubnetId": subnets[zone], "AvailabilityZone": zone}
                 for kind in ["m5.24xlarge", "t3.medium", "m5.large"]]
    answer = fleet("cheapest", overrides, strategy="lowest-price")
    same(answer.get("Errors"), [])
    [launched] = answer["Instances"]
    same((launched["InstanceType"], launched["Lifecycle"]), ("t3.medium", "on-demand"))
    used = launched["LaunchTemplateAndOverrides"]["Overrides"]
    same((used["SubnetId"], used["AvailabilityZone"], used["ImageId"]), (subnets[zone], zone, image()))
    ec2 = client("ec2")
    [reservation] = ec2.describe_instances(InstanceIds=launched["InstanceIds"])["Reservations"]
    [instance] = reservation["Instances"]
    same([group["GroupName"] for group in instance["SecurityGroups"]], ["local-node"])
    assert instance["IamInstanceProfile"]["Arn"].endswith("instance-profile/nodes")
    same(instance["MetadataOptions"]["HttpTokens"], "required")
    same(instance["Placement"]["AvailabilityZone"], zone)
    assert instance["Placement"]["AvailabilityZoneId"].startswith("usw2-az")
    same({tag["Key"]: tag["Value"] for tag in instance["Tags"]}, {"karpenter.sh/nodepool": "cheapest"})
    assert "SpotInstanceRequestId" not in instance and instance["State"]["Name"] in ("pending", "running")
    [volume] = ec2.describe_volumes(VolumeIds=[instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"]
    same((volume["Size"], volume["VolumeType"], volume["Encrypted"]), (50, "gp3", True))
    ec2.terminate_instances(InstanceIds=launched["InstanceIds"])


@check
def a_spot_fleet_has_requests_and_moves_to_what_can_be_had():
    template("spot")
    overrides = [{"InstanceType": kind, "SubnetId": subnet, "AvailabilityZone": zone}
                 for kind in ["m5.large", "c5.large"] for zone, subnet in private_subnets().items()]
    fault = {"capacity": {"code": "InsufficientInstanceCapacity", "instanceType": "c5.large", "capacityType": "spot"}}
    control("POST", "faults", {"operation": "CreateFleet", "kind": fault})
    answer = fleet("spot", overrides, total=5, kind="spot", strategy="price-capacity-optimized")
    control("DELETE", "faults")
    same(sum(len(launched["InstanceIds"]) for launched in answer["Instances"]), 5)
    same({launched["InstanceType"] for launched in answer["Instances"]}, {"m5.large"})
    same({error["ErrorCode"] for error in answer["Errors"]}, {"InsufficientInstanceCapacity"})
    same({error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] for error in answer["Errors"]}, {"c5.large"})
    ids = [instance for launched in answer["Instances"] for instance in launched["InstanceIds"]]
    ec2 = client("ec2")
    for reservation in ec2.describe_instances(InstanceIds=ids)["Reservations"]:
        for instance in reservation["Instances"]:
            same(instance["InstanceLifecycle"], "spot")
            assert instance["SpotInstanceRequestId"].startswith("sir-")
    ec2.terminate_instances(InstanceIds=ids)


@check
def what_cannot_be_is_an_error_of_its_override():
    template("wrong")
    zone, subnet = sorted(private_subnets().items())[0]
    arm = {"InstanceType": "m7g.large", "SubnetId": subnet}
    none = {"InstanceType": "m9.none", "SubnetId": subnet}
    image_gone = {"InstanceType": "m5.large", "SubnetId": subnet, "ImageId": "ami-0123456789abcdef0"}
    answer = fleet("wrong", [arm, none, image_gone])
    same(answer["Instances"], [])
    same(sorted(error["ErrorCode"] for error in answer["Errors"]),
         ["InvalidAMIID.NotFound", "InvalidParameterValue", "InvalidParameterValue"])
    ec2 = client("ec2")
    offered = ec2.describe_instance_type_offerings(LocationType="availability-zone",
                                                   Filters=[{"Name": "instance-type", "Values": ["p5.48xlarge"]}])
    offered = {row["Location"] for row in offered["InstanceTypeOfferings"]}
    elsewhere = [(z, s) for z, s in sorted(private_subnets().items()) if z not in offered]
    if elsewhere:
        answer = fleet("wrong", [{"InstanceType": "p5.48xlarge", "SubnetId": elsewhere[0][1]}])
        same(answer["Errors"][0]["ErrorCode"], "Unsupported")
    same(code_of(fleet, "no-such-template", [{"InstanceType": "m5.large", "SubnetId": subnet}])[0],
         "InvalidLaunchTemplateName.NotFoundException")
    same(code_of(fleet, "wrong", [{"InstanceType": "m5.large", "SubnetId": subnet}], DryRun=True), ("DryRunOperation", 412))


@check
def a_client_token_launches_once():
    template("token")
    zone, subnet = sorted(private_subnets().items())[0]
    overrides = [{"InstanceType": "m5.large", "SubnetId": subnet}]
    first = fleet("token", overrides, ClientToken="one")
    again = fleet("token", overrides, ClientToken="one")
    same(first["Instances"], again["Instances"])
    same(code_of(fleet, "token", overrides, total=2, ClientToken="one")[0], "IdempotentParameterMismatch")
    client("ec2").terminate_instances(InstanceIds=first["Instances"][0]["InstanceIds"])


@check
def limits_of_the_account_hold():
    template("limits")
    zone, subnet = sorted(private_subnets().items())[0]
    overrides = [{"InstanceType": "m5.large", "SubnetId": subnet}]
    until("earlier instances are gone", lambda: not [i for i in control("GET", "instances") if i["state"] in ("pending", "running")])
    control("POST", "happenings", {"kind": "limits", "onDemandVcpus": 4, "spotInstances": 1})
    answer = fleet("limits", overrides, total=3)
    same([len(answer["Instances"][0]["InstanceIds"]), answer["Errors"][0]["ErrorCode"]], [2, "VcpuLimitExceeded"])
    spot = fleet("limits", overrides, total=3, kind="spot")
    same([len(spot["Instances"][0]["InstanceIds"]), spot["Errors"][0]["ErrorCode"]], [1, "MaxSpotInstanceCountExceeded"])
    control("POST", "happenings", {"kind": "limits"})
    client("ec2").terminate_instances(InstanceIds=answer["Instances"][0]["InstanceIds"] + spot["Instances"][0]["InstanceIds"])


@check
def addresses_of_a_subnet_are_taken_and_given_back():
    template("addresses")
    ec2 = client("ec2")
    zone, subnet = sorted(private_subnets().items())[1]
    free = lambda: ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"]
    before = until("addresses are back", lambda: free() == 8187 and free())
    answer = fleet("addresses", [{"InstanceType": "m5.large", "SubnetId": subnet}], total=10)
    same(free(), before - 10)
    ec2.terminate_instances(InstanceIds=answer["Instances"][0]["InstanceIds"])
    until("addresses are back", lambda: free() == before)


@check
def reservations_and_placement_groups_are_used():
    ec2 = client("ec2")
    zone, subnet = sorted(private_subnets().items())[0]
    made = ec2.create_capacity_reservation(InstanceType="m5.large", InstancePlatform="Linux/UNIX", AvailabilityZone=zone,
                                           InstanceCount=1, InstanceMatchCriteria="targeted")["CapacityReservation"]
    id = made["CapacityReservationId"]
    wish = {"CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": id}}
    template("reserved", CapacityReservationSpecification=wish)
    answer = fleet("reserved", [{"InstanceType": "m5.large", "SubnetId": subnet}], total=2)
    same([len(answer["Instances"][0]["InstanceIds"]), answer["Errors"][0]["ErrorCode"]], [1, "ReservationCapacityExceeded"])
    left = lambda: ec2.describe_capacity_reservations(CapacityReservationIds=[id])["CapacityReservations"][0]
    same((left()["AvailableInstanceCount"], left()["State"]), (0, "active"))
    [instance] = ec2.describe_instances(InstanceIds=answer["Instances"][0]["InstanceIds"])["Reservations"][0]["Instances"]
    same(instance["CapacityReservationId"], id)
    same(instance["CapacityReservationSpecification"]["CapacityReservationPreference"], "capacity-reservations-only")
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    same(left()["AvailableInstanceCount"], 1)
    same(code_of(ec2.describe_capacity_reservations, CapacityReservationIds=["cr-0"])[0], "InvalidCapacityReservationId.NotFound")

    group = ec2.create_placement_group(GroupName="apart", Strategy="partition", PartitionCount=3)["PlacementGroup"]
    same(ec2.describe_placement_groups(GroupIds=[group["GroupId"]])["PlacementGroups"][0]["PartitionCount"], 3)
    template("apart", Placement={"GroupId": group["GroupId"], "Tenancy": "dedicated"})
    ids = fleet("apart", [{"InstanceType": "m5.large", "SubnetId": subnet}], total=3)["Instances"][0]["InstanceIds"]
    placed = [i["Placement"] for r in ec2.describe_instances(InstanceIds=ids)["Reservations"] for i in r["Instances"]]
    same(sorted(place["PartitionNumber"] for place in placed), [1, 2, 3])
    same({place["Tenancy"] for place in placed}, {"dedicated"})
    same(code_of(ec2.describe_placement_groups, GroupNames=["none"])[0], "InvalidPlacementGroup.Unknown")
    ec2.terminate_instances(InstanceIds=ids)


@check
def an_instance_lives_and_ends():
    template("life")
    ec2 = client("ec2")
    zone, subnet = sorted(private_subnets().items())[0]
    [id] = fleet("life", [{"InstanceType": "m5.large", "SubnetId": subnet}])["Instances"][0]["InstanceIds"]
    describe = lambda: ec2.describe_instances(InstanceIds=[id])["Reservations"][0]["Instances"][0]
    state = lambda: describe()["State"]["Name"]
    until("it runs", lambda: state() == "running")
    ec2.create_tags(Resources=[id], Tags=[{"Key": "Name", "Value": describe()["PrivateDnsName"]}])
    assert {"Key": "Name", "Value": describe()["PrivateDnsName"]} in describe()["Tags"]
    same(code_of(ec2.create_tags, Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])[0], "InvalidInstanceID.NotFound")
    # One unknown id spares all, as at moto.
    same(code_of(ec2.terminate_instances, InstanceIds=[id, "i-0123456789abcdef0"])[0], "InvalidInstanceID.NotFound")
    same(state(), "running")
    [change] = ec2.terminate_instances(InstanceIds=[id])["TerminatingInstances"]
    same((change["PreviousState"]["Name"], change["CurrentState"]["Name"]), ("running", "shutting-down"))
    until("it is terminated", lambda: state() == "terminated")
    alive = [{"Name": "instance-state-name", "Values": ["pending", "running", "shutting-down"]},
             {"Name": "tag:karpenter.sh/nodepool", "Values": ["life"]}]
    same(ec2.describe_instances(Filters=alive)["Reservations"], [])
    same(code_of(ec2.describe_instances, InstanceIds=["i-0123456789abcdef0"]),
         code_of(client("ec2", MOTO).describe_instances, InstanceIds=["i-0123456789abcdef0"]))


@check
def instances_come_in_pages():
    template("pages")
    ec2 = client("ec2")
    zone, subnet = sorted(private_subnets().items())[0]
    ids = fleet("pages", [{"InstanceType": "m5.large", "SubnetId": subnet}], total=12)["Instances"][0]["InstanceIds"]
    filters = [{"Name": "tag:karpenter.sh/nodepool", "Values": ["pages"]}]
    pages = list(ec2.get_paginator("describe_instances").paginate(Filters=filters, PaginationConfig={"PageSize": 5}))
    counts = [sum(len(r["Instances"]) for r in page["Reservations"]) for page in pages]
    same(counts, [5, 5, 2])
    found = {i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]}
    same(found, set(ids))
    ec2.terminate_instances(InstanceIds=ids)


@check
def run_instances_answers_dry_runs_as_moto_and_launches():
    ec2 = client("ec2")
    template("run")
    zone, subnet = sorted(private_subnets().items())[0]
    wish = {"LaunchTemplate": {"LaunchTemplateName": "run"}, "InstanceType": "m5.large", "SubnetId": subnet,
            "MinCount": 1, "MaxCount": 1}
    same(code_of(ec2.run_instances, **wish, DryRun=True), ("DryRunOperation", 412))
    moto_wish = {"ImageId": "ami-12345678", "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    same(code_of(client("ec2", MOTO).run_instances, **moto_wish, DryRun=True)[0], "DryRunOperation")
    same(code_of(ec2.run_instances, **wish, IamInstanceProfile={"Name": "missing"}, DryRun=True)[0], "InvalidParameterValue")
    [instance] = ec2.run_instances(**wish)["Instances"]
    same((instance["InstanceType"], instance["State"]["Name"]), ("m5.large", "pending"))
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])


@check
def checks_of_instances_can_fail():
    template("checks")
    ec2 = client("ec2")
    zone, subnet = sorted(private_subnets().items())[0]
    [id] = fleet("checks", [{"InstanceType": "m5.large", "SubnetId": subnet}])["Instances"][0]["InstanceIds"]
    status = lambda *filters: [s["InstanceId"] for s in ec2.describe_instance_status(Filters=list(filters))["InstanceStatuses"]]
    until("it is checked", lambda: id in status())
    impaired = {"Name": "system-status.status", "Values": ["impaired"]}
    events = {"Name": "event.code", "Values": ["instance-retirement", "system-reboot"]}
    same((status(impaired), status(events)), ([], []))
    control("POST", "happenings", [{"kind": "impairment", "instance": id, "system": True},
                                   {"kind": "scheduledChange", "instance": id, "code": "instance-retirement"}])
    same((status(impaired), status(events)), ([id], [id]))
    [found] = ec2.describe_instance_status(InstanceIds=[id])["InstanceStatuses"]
    assert found["SystemStatus"]["Details"][0]["ImpairedSince"] and found["Events"][0]["NotBefore"]
    same(found["InstanceStatus"]["Status"], "ok")
    ec2.terminate_instances(InstanceIds=[id])


# --- prices and messages ------------------------------------------------------------------------------------------------


@check
def prices_are_listed_for_machines_and_metal():
    pricing = client("pricing")
    base = [("regionCode", REGION), ("serviceCode", "AmazonEC2"), ("preInstalledSw", "NA"), ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"), ("marketoption", "OnDemand")]

    def prices(more):
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in base + more]
        found = {}
        for page in pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters):
            for product in map(json.loads, page["PriceList"]):
                [term] = product["terms"]["OnDemand"].values()
                [dimension] = term["priceDimensions"].values()
                found[product["product"]["attributes"]["instanceType"]] = float(dimension["pricePerUnit"]["USD"])
        return found

    shared = prices([("tenancy", "Shared"), ("productFamily", "Compute Instance")])
    metal = prices([("tenancy", "Dedicated"), ("productFamily", "Compute Instance (bare metal)")])
    same(shared["m5.large"], 0.096)
    assert metal["m5.metal"] > 4 and "m5.large" not in metal and len(shared) > 1000, (len(shared), len(metal))
    spot = client("ec2").describe_spot_price_history(
        InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"], StartTime=datetime.datetime.now(datetime.UTC))
    quoted = {row["AvailabilityZone"]: float(row["SpotPrice"]) for row in spot["SpotPriceHistory"]}
    same(len(quoted), 4)
    assert all(0 < price < shared["m5.large"] for price in quoted.values()), quoted


@check
def queues_behave_as_motos():
    def life(url):
        sqs = client("sqs", url)
        told = [code_of(sqs.get_queue_url, QueueName="mine")]
        made = sqs.create_queue(QueueName="mine")["QueueUrl"]
        told += [made.rsplit("/", 2)[1:], sqs.get_queue_url(QueueName="mine")["QueueUrl"] == made]
        sent = sqs.send_message(QueueUrl=made, MessageBody="hello ü")
        told += [sent["MD5OfMessageBody"]]
        receive = lambda wait=0: sqs.receive_message(QueueUrl=made, MaxNumberOfMessages=10, VisibilityTimeout=1, WaitTimeSeconds=wait)
        [message] = receive()["Messages"]
        told += [message["Body"], message["MD5OfBody"], "Messages" in receive()]
        began = time.monotonic()
        [message] = receive(5)["Messages"]
        told += [0.3 < time.monotonic() - began < 3]
        sqs.delete_message(QueueUrl=made, ReceiptHandle=message["ReceiptHandle"])
        began = time.monotonic()
        told += ["Messages" in receive(2), time.monotonic() - began > 1.8]
        return told

    for mine, theirs in zip(life(FRONT), life(MOTO), strict=True):
        same(mine, theirs)


@check
def a_spot_interruption_is_told_and_then_done():
    template("interrupted")
    zone, subnet = sorted(private_subnets().items())[0]
    [id] = fleet("interrupted", [{"InstanceType": "m5.large", "SubnetId": subnet}], kind="spot")["Instances"][0]["InstanceIds"]
    control("POST", "happenings", [{"kind": "rebalance", "instance": id}, {"kind": "spotInterruption", "instance": id}])
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
    kinds = {}

    def received():
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            body = json.loads(message["Body"])
            same((body["version"], body["region"], body["account"]), ("0", REGION, "123456789012"))
            if body["detail"].get("instance-id") == id:
                kinds.setdefault(body["detail-type"], []).append(body)
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return "EC2 Spot Instance Interruption Warning" in kinds and "EC2 Instance Rebalance Recommendation" in kinds

    until("both are told", received)
    same(kinds["EC2 Spot Instance Interruption Warning"][0]["detail"]["instance-action"], "terminate")
    control("POST", "happenings", {"kind": "terminate", "instance": id})


# --- what goes wrong ------------------------------------------------------------------------------------------------------


@check
def faults_meet_calls_and_are_over():
    ec2 = client("ec2")
    control("DELETE", "records")
    control("POST", "faults", {"operation": "DescribeSubnets", "times": 2, "kind": "throttle"})
    same(code_of(ec2.describe_subnets), ("RequestLimitExceeded", 503))
    same(code_of(ec2.describe_subnets), ("RequestLimitExceeded", 503))
    ec2.describe_subnets()
    for kind, code in [("internalError", ("InternalError", 500)), ("denied", ("UnauthorizedOperation", 403)),
                       ("expiredCredentials", ("RequestExpired", 400)),
                       ({"error": {"status": 400, "code": "Own", "message": "m"}}, ("Own", 400))]:
        control("POST", "faults", {"operation": "*", "times": 1, "kind": kind})
        same(code_of(ec2.describe_subnets), code)
    control("POST", "faults", {"operation": "DescribeSubnets", "times": 1, "kind": {"slow": {"milliseconds": 600}}})
    began = time.monotonic()
    ec2.describe_subnets()
    assert time.monotonic() - began > 0.55
    records = control("GET", "records")["DescribeSubnets"]
    same((records["count"], records["errors"]["RequestLimitExceeded"]), (8, 2))
    assert records["mostPerSecond"] >= 2


@check
def a_connection_can_break_after_the_work_was_done():
    control("POST", "faults", {"operation": "CreateLaunchTemplate", "times": 1, "kind": "resetAfter"})
    try:
        template("lost-answer")
        raise AssertionError("the call succeeded")
    except (ConnectionClosedError, HTTPClientError):
        pass
    same(len(client("ec2").describe_launch_templates(LaunchTemplateNames=["lost-answer"])["LaunchTemplates"]), 1)


@check
def stale_reads_do_not_see_what_is_new():
    template("stale")
    control("POST", "faults", {"operation": "DescribeLaunchTemplates", "times": 1, "kind": {"stale": {"seconds": 30}}})
    ec2 = client("ec2")
    same(code_of(ec2.describe_launch_templates, LaunchTemplateNames=["stale"])[0], "InvalidLaunchTemplateName.NotFoundException")
    same(len(ec2.describe_launch_templates(LaunchTemplateNames=["stale"])["LaunchTemplates"]), 1)


@check
def objects_are_kept_in_buckets():
    def life(url):
        s3 = client("s3", url)
        s3.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
        told = [code_of(s3.get_object, Bucket="store", Key="a/none"), code_of(s3.get_object, Bucket="none", Key="a")[0]]
        for number in range(3):
            told += [s3.put_object(Bucket="store", Key=f"a/b {number}+", Body=f"content {number}".encode())["ETag"]]
        told += [code_of(s3.put_object, Bucket="store", Key="a/b 0+", Body=b"x", IfNoneMatch="*")]
        found = s3.get_object(Bucket="store", Key="a/b 1+")
        told += [found["Body"].read(), found["ETag"]]
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket="store", Prefix="a/", PaginationConfig={"PageSize": 2})
        told += [[(o["Key"], o["Size"]) for o in page.get("Contents", [])] for page in pages]
        s3.delete_object(Bucket="store", Key="a/b 1+")
        told += [s3.list_objects_v2(Bucket="store", Prefix="a/")["KeyCount"]]
        return told

    for mine, theirs in zip(life(FRONT), life(MOTO), strict=True):
        same(mine, theirs)


def run_all():
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        began = time.monotonic()
        try:
            function()
            print(f"ok      {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
            control("DELETE", "faults")
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {len(CHECKS) - failed} passed; {failed} failed; 0 ignored")
    return 1 if failed else 0


def main():
    global FRONT, MOTO
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    MOTO = "http://{}:{}".format(*moto.get_host_and_port())
    # The front ends with its standard input, however this program ends.
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as front:
        FRONT = front.stdout.readline().strip()
        status = run_all()
        front.stdin.close()
    moto.stop()
    return status


sys.exit(main())
