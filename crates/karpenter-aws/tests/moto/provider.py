"""Lets the AWS provider live one life of a machine on moto: an account that we have not simulated ourselves.

Usage: provider.py PROGRAM, the example `on_moto` of this crate. Prints one line per check and a summary in the style of cargo's tests.
moto serves SQS, EventBridge, IAM, EKS, STS and the calls to EC2 that it knows well; it sells no reservations and knows no prices.
"""

import base64
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import traceback

REGION = "us-west-2"
NAME = "on-moto"
IMAGE = "ami-0123456789abcdef0"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}

# moto reads its images once, when it is imported.
IMAGES = tempfile.NamedTemporaryFile("w", suffix=".json")
json.dump(
    [
        {
            "ami_id": IMAGE,
            "name": "amazon-eks-node-al2023-x86_64-standard",
            "owner_id": "123456789012",
            "architecture": "x86_64",
            "state": "available",
            "public": False,
            "virtualization_type": "hvm",
            "root_device_name": "/dev/xvda",
            "root_device_type": "ebs",
            "image_type": "machine",
            "image_location": "amazon/al2023",
            "description": "",
            "platform": None,
            "hypervisor": "xen",
            "sriov": "simple",
            "creation_date": "2026-11-01T00:00:00.000Z",
        }
    ],
    IMAGES,
)
IMAGES.flush()
os.environ["MOTO_AMIS_PATH"] = IMAGES.name

import boto3  # noqa: E402
from moto.moto_server import werkzeug_app  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

URL = ""
CHECKS = []
# What the program said, by the first word of a line.
SEEN = {}


def check(function):
    """Registers a check; its name is a sentence. Checks run in the order in which they stand."""
    CHECKS.append(function)
    return function


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def client(service):
    return boto3.client(
        service, endpoint_url=URL, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )


def create_account():
    """A network, a role, a cluster, a queue that hears of EC2, and an instance profile that is nobody's business."""
    ec2, tags = client("ec2"), [{"Key": "karpenter.sh/discovery", "Value": NAME}]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=f"{REGION}a")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    ec2.create_tags(Resources=[subnet, group], Tags=tags)
    iam = client("iam")
    role = iam.create_role(RoleName="nodes", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    iam.create_instance_profile(InstanceProfileName="theirs", Path="/others/")
    network = {"subnetIds": [subnet], "securityGroupIds": [group]}
    client("eks").create_cluster(name=NAME, version="1.34", roleArn=role, resourcesVpcConfig=network)
    queue = client("sqs").create_queue(QueueName=NAME)["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events = client("events")
    events.put_rule(Name="spot", EventPattern=json.dumps({"source": ["aws.ec2"]}))
    events.put_targets(Rule="spot", Targets=[{"Id": "queue", "Arn": arn}])


def instance():
    return client("ec2").describe_instances(InstanceIds=[SEEN["machine"]])["Reservations"][0]["Instances"][0]


def tags_of(thing):
    return {tag["Key"]: tag["Value"] for tag in thing["Tags"]}


class Program:
    """The provider, as a process that says what it sees."""

    def __init__(self, path):
        variables = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": URL}
        self.process = subprocess.Popen([path, IMAGE], env=variables, stdout=subprocess.PIPE, text=True)

    def hears(self, word):
        line = self.process.stdout.readline().split()
        assert line[:1] == [word], f"the program said {line} in place of {word}"
        SEEN[word] = line[1] if len(line) > 1 else ""


PROGRAM = None


@check
def the_caller_is_known_by_sts():
    PROGRAM.hears("account")
    same(SEEN["account"], client("sts").get_caller_identity()["Account"])


@check
def the_role_gets_an_instance_profile_of_its_own():
    PROGRAM.hears("profile")
    profile = client("iam").get_instance_profile(InstanceProfileName=SEEN["profile"])["InstanceProfile"]
    same([role["RoleName"] for role in profile["Roles"]], ["nodes"])
    assert profile["Path"].startswith(f"/karpenter/{REGION}/{NAME}/"), profile["Path"]
    same(tags_of(profile)["eks:eks-cluster-name"], NAME)


@check
def a_pod_gets_a_machine_with_its_tags_from_a_template():
    PROGRAM.hears("machine")
    machine = instance()
    same(machine["State"]["Name"], "running")
    same(machine["ImageId"], IMAGE)
    assert machine["InstanceType"] in ("m5.large", "m5.xlarge"), machine["InstanceType"]
    tags = tags_of(machine)
    wanted = {"team": "web", "karpenter.sh/nodepool": "general", "eks:eks-cluster-name": NAME, "Name": "ip-10-0-0-1"}
    same({key: tags.get(key) for key in wanted}, wanted)


@check
def the_template_tells_the_machine_to_join_the_cluster():
    ec2 = client("ec2")
    endpoint = client("eks").describe_cluster(name=NAME)["cluster"]["endpoint"]
    templates = ec2.describe_launch_templates()["LaunchTemplates"]
    assert templates, "none was made"
    for template in templates:
        assert template["LaunchTemplateName"].startswith("karpenter.k8s.aws/"), template
        versions = ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"], Versions=["1"])
        data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        same(data["IamInstanceProfile"]["Name"], SEEN["profile"])
        same(data["MetadataOptions"]["HttpTokens"], "required")
        text = base64.b64decode(data["UserData"]).decode()
        assert endpoint in text and "kind: NodeConfig" in text, text


@check
def a_warning_that_eventbridge_delivers_ends_the_machine():
    event = {
        "Source": "aws.ec2",
        "DetailType": "EC2 Spot Instance Interruption Warning",
        "Detail": json.dumps({"instance-id": SEEN["machine"], "instance-action": "terminate"}),
    }
    client("events").put_events(Entries=[event])
    PROGRAM.hears("ended")
    same(instance()["State"]["Name"], "terminated")


@check
def a_message_that_was_heeded_is_deleted():
    sqs = client("sqs")
    queue = sqs.get_queue_url(QueueName=NAME)["QueueUrl"]
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=counts)["Attributes"]
    same({name: attributes[name] for name in counts}, dict.fromkeys(counts, "0"))


@check
def a_deleted_class_leaves_nothing_but_what_is_others():
    PROGRAM.hears("done")
    same(PROGRAM.process.wait(timeout=10), 0)
    same(client("ec2").describe_launch_templates()["LaunchTemplates"], [])
    profiles = client("iam").list_instance_profiles()["InstanceProfiles"]
    same([profile["InstanceProfileName"] for profile in profiles], ["theirs"])


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
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {len(CHECKS) - failed} passed; {failed} failed; 0 ignored")
    return 1 if failed else 0


def main():
    global URL, PROGRAM
    # moto has no prices, and says so at length whenever it is asked for them.
    logging.disable(logging.CRITICAL)
    werkzeug_app.print = lambda *_: None
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    URL = "http://{}:{}".format(*moto.get_host_and_port())
    create_account()
    PROGRAM = Program(sys.argv[1])
    try:
        return run_all()
    finally:
        PROGRAM.process.kill()
        moto.stop()


sys.exit(main())
