"""A simulated cloud in a process of its own, and the official clients of its services.

Every answer is compared with the SDK's model of it: a field that the model does not know is a spelling mistake of the simulated cloud.
"""

import base64
import json
import subprocess
import time
import urllib.request
import uuid

from alibabacloud_cms20190101.client import Client as CmsClient
from alibabacloud_cs20151215.client import Client as CsClient
from alibabacloud_ecs20140526.client import Client as EcsClient
from alibabacloud_ram20150501.client import Client as RamClient
from alibabacloud_sts20150401.client import Client as StsClient
from alibabacloud_tea_openapi.models import Config
from alibabacloud_vpc20160428.client import Client as VpcClient
from mns.account import Account

# Said by the service beyond what the SDK's models have room for.
ACCEPTED = {"HostId", "AccessDeniedDetail"}


def unknown_fields(raw, modelled, path=""):
    """Fields of an answer that the SDK's model of it lost."""
    if isinstance(raw, dict) and isinstance(modelled, dict):
        for name, value in raw.items():
            if name not in modelled and value is not None and name not in ACCEPTED:
                yield f"{path}.{name}"
            else:
                yield from unknown_fields(value, modelled.get(name), f"{path}.{name}")
    elif isinstance(raw, list) and isinstance(modelled, list):
        for entry, other in zip(raw, modelled):
            yield from unknown_fields(entry, other, f"{path}[]")


class Checked:
    """A client whose answers are compared with their models."""

    def __init__(self, client):
        self.client = client
        self.raw = None
        call_api = client.call_api

        def remember(*arguments):
            answer = call_api(*arguments)
            self.raw = answer.get("body")
            return answer

        client.call_api = remember

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*arguments):
            body = method(*arguments).body
            if hasattr(body, "to_map"):
                lost = sorted(set(unknown_fields(self.raw, body.to_map())))
                assert not lost, f"{name}: the SDK does not know {', '.join(lost)}"
            return body

        return call


class Front:
    """One simulated cloud."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts = json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)

    def __getattr__(self, name):
        return self.facts[name]

    def config(self, key=None, secret=None, token=None, algorithm=None):
        return Config(
            signature_algorithm=algorithm,
            access_key_id=key or self.key,
            access_key_secret=secret or self.secret,
            security_token=token,
            region_id=self.region,
            endpoint=self.endpoint,
            protocol="http",
        )

    def ecs(self, **credentials):
        return Checked(EcsClient(self.config(**credentials)))

    def vpc_client(self):
        return Checked(VpcClient(self.config()))

    def cs(self, **credentials):
        return Checked(CsClient(self.config(**credentials)))

    def sts(self, **credentials):
        return Checked(StsClient(self.config(**credentials)))

    def ram(self):
        return Checked(RamClient(self.config()))

    def cms(self):
        return Checked(CmsClient(self.config()))

    def queue(self, name, key=None, secret=None, token=""):
        """A message queue. Its client has no models to compare with; it raises where an answer lacks a field."""
        account = Account(f"http://{self.endpoint}", key or self.key, secret or self.secret, token)
        return account.get_queue(name)

    def http(self, method, path, body=None, headers=None):
        """A request of no SDK: status and text."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.endpoint}{path}", data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def control(self, method, path, body=None):
        status, text = self.http(method, f"/_simulated/{path}", body)
        assert status == 200, text
        return json.loads(text)

    def fault(self, action, kind, **fields):
        self.control("POST", "faults", {"action": action, "kind": kind, "times": 1, **fields})

    def token(self, **claims):
        """A token of a service account, as RRSA projects it."""
        default = {
            "iss": self.issuer,
            "aud": ["sts.aliyuncs.com"],
            "sub": "system:serviceaccount:karpenter:karpenter",
            "exp": int(time.time()) + 600,
        }

        def part(value):
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

        return f"{part({'alg': 'RS256'})}.{part({**default, **claims})}.signature"


def until(condition, seconds=15):
    """What a condition gives once it gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to pass in time")


def refused(call, code, status=None):
    """The error of a call that must be refused with this code."""
    try:
        call()
    except Exception as error:  # The SDK has several classes of errors; what counts is their code.
        # The client of queues calls it a type.
        found = getattr(error, "code", None) or getattr(error, "type", None)
        assert found is not None and code in found, f"wanted {code}, got {error!r}"
        if status is not None:
            assert error.status_code == status, f"wanted status {status}, got {error.status_code}"
        return error
    raise AssertionError(f"it was not refused with {code}")


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
