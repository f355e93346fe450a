"""Lets `karpenter kops` work on state stores in moto's S3, which boto3 fills and reads back.

Usage: store.py PROGRAM EXAMPLES, the program `karpenter` and the folder of kOps' examples in the documentation. Prints one line per
check and a summary in the style of cargo's tests.
"""

import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback

import boto3
from moto.server import ThreadedMotoServer

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
CLUSTER = "demo.example.com"
GROUPS = 500

PROGRAM, EXAMPLES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
FACTS = ["--cloud-facts", str(EXAMPLES / "cloud.yaml")]
DOCUMENTS = (EXAMPLES / "cluster.yaml").read_text().split("---\n")
S3 = None
URL = ""
CHECKS = []


def check(function):
    """Registers a check; its name is a sentence."""
    CHECKS.append(function)
    return function


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def put(bucket, key, text):
    S3.put_object(Bucket=bucket, Key=f"stores/{CLUSTER}/{key}", Body=text.encode())


def contents(bucket):
    """Everything in a bucket, by key."""
    pages = S3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return {key: S3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys}


def script(group):
    return f"#!/bin/bash\necho {group}\n"


def put_group(bucket, group):
    put(bucket, f"instancegroup/{group}", DOCUMENTS[2].replace("workers", group))
    put(bucket, f"igconfig/node/{group}/nodeupscript.sh", script(group))


def bucket(name, groups):
    """A bucket with a cluster and so many groups that Karpenter manages."""
    S3.create_bucket(Bucket=name)
    put(name, "config", DOCUMENTS[0])
    put(name, "instancegroup/control-plane", DOCUMENTS[1])
    for number in range(groups):
        put_group(name, f"group-{number:03}")
    return name


def kops(command, store, *arguments, name=CLUSTER, **more):
    variables = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": URL, "KOPS_STATE_STORE": f"s3://{store}/stores", **more}
    line = [PROGRAM, "kops", command, "--name", name, *arguments]
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def good(run):
    assert run.returncode == 0, run.stderr
    return run.stdout


@check
def many_groups_are_generated_with_their_scripts():
    store = bucket("many", GROUPS)
    began, own = time.monotonic(), time.process_time()
    text = good(kops("generate", store, *FACTS))
    took, own = time.monotonic() - began, time.process_time() - own
    # moto needs about two milliseconds for each of the thousand requests, whoever sends them, one after the other.
    print(f"        {GROUPS} groups in {took:.2f} s, {own:.2f} s of it moto's own work")
    same(text.count("kind: NodePool\n"), GROUPS)
    same(re.findall(r"    echo (group-\d+)\n", text), [f"group-{number:03}" for number in range(GROUPS)])


@check
def nothing_is_printed_when_a_script_is_missing():
    store = bucket("broken", 2)
    S3.delete_object(Bucket=store, Key=f"stores/{CLUSTER}/igconfig/node/group-001/nodeupscript.sh")
    run = kops("generate", store, *FACTS)
    same((run.returncode, run.stdout), (1, ""))
    assert f"s3://broken/stores/{CLUSTER}/igconfig/node/group-001/nodeupscript.sh" in run.stderr, run.stderr


@check
def an_unknown_cluster_is_named():
    run = kops("generate", bucket("empty", 0), *FACTS, name="other.example.com")
    same((run.returncode, run.stdout), (1, ""))
    assert "s3://empty/stores/other.example.com/config" in run.stderr, run.stderr


@check
def a_group_is_created_beside_what_is_there():
    store = bucket("grown", 1)
    before = contents(store)
    options = ["--node-count", "4", "--zones", "eu-west-1a", "--discovery-store", "s3://keys"]
    shown = good(kops("create", store, *options, "--dry-run"))
    same(contents(store), before)
    good(kops("create", store, *options))
    after = contents(store)
    config, group = f"stores/{CLUSTER}/config", f"stores/{CLUSTER}/instancegroup/nodes"
    same(sorted(set(after) - set(before)), [group])
    same({key for key in before if after[key] != before[key]}, {config})
    lines = after[config].splitlines()
    assert [line for line in before[config].splitlines() if line not in lines] == [], after[config]
    assert "minSize: 4\n" in after[group] and "manager: Karpenter\n" in after[group], after[group]
    assert after[config] in shown, shown
    again = kops("create", store, *options)
    same((again.returncode, contents(store)), (1, after))


@check
def nothing_is_written_when_the_result_would_be_refused():
    store = bucket("refused", 1)
    before = contents(store)
    run = kops("create", store, "--image", "ssm:", "--discovery-store", "s3://keys")
    same(run.returncode, 1)
    same(contents(store), before)


@check
def a_new_cluster_is_written_whole_and_can_be_read():
    S3.create_bucket(Bucket="new")
    options = ["--zones", "eu-west-1a,eu-west-1b", "--kubernetes-version", "v1.35.0", "--image", "base-2026"]
    good(kops("create", "new", *options, "--control-plane-size", "m5.large", "--discovery-store", "s3://keys"))
    names = [f"stores/{CLUSTER}/{name}" for name in ["config", "instancegroup/control-plane-eu-west-1a", "instancegroup/nodes"]]
    same(sorted(contents("new")), names)
    put("new", "igconfig/node/nodes/nodeupscript.sh", script("nodes"))
    same(good(kops("generate", "new", *FACTS)).count("kind: NodePool\n"), 1)


@check
def groups_are_applied_and_pruned_as_the_store_has_them():
    store = bucket("applied", 2)
    with tempfile.TemporaryDirectory() as data:
        line = [PROGRAM, "local", "--provider", "aws", "--quiet", "--port", "0", "--data-dir", data]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
            try:
                # It is ready when it has told everything.
                next(told for told in server.stdout if "AWS_SECRET_ACCESS_KEY" in told)
                apply = lambda *options: good(kops("apply", store, *FACTS, *options, KUBECONFIG=f"{data}/kubeconfig"))
                objects = lambda group: [f"ec2nodeclass/{group}", f"nodepool/{group}"]
                told = lambda verb, *groups: "".join(f"{name} {verb}\n" for group in groups for name in objects(group))
                same(apply("--dry-run").count(" would be created:\n"), 4)
                same(apply(), told("created", "group-000", "group-001"))
                same(apply(), told("unchanged", "group-000", "group-001"))
                S3.delete_object(Bucket=store, Key=f"stores/{CLUSTER}/instancegroup/group-001")
                assert "Remove them?" in apply()
                pruned = apply("--yes")
                assert pruned.startswith(told("unchanged", "group-000")), pruned
                same(sorted(pruned.splitlines()[2:]), [f"{name} pruned" for name in objects("group-001")])
                same(apply("--dry-run"), told("unchanged", "group-000"))
            finally:
                server.terminate()


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
    global S3, URL
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    URL = "http://{}:{}".format(*moto.get_host_and_port())
    S3 = boto3.client(
        "s3",
        endpoint_url=URL,
        region_name=KEYS["AWS_REGION"],
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
    status = run_all()
    moto.stop()
    return status


sys.exit(main())
