"""Our definitions on a real API server, put there by stock kubectl: what it takes, refuses and explains."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import Invalid, NotFound, ServerError
from pliant.frontends import FRONTENDS
from pliant.frontends.frontend import required_crds
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.codec import build_merge_patch
from pliant.kube.resources import CRDS, Resource
from pliant.runtime.clock import SystemClock
from tests.controlplane.installed import kubectl, printed, wait_served
from tests.scenarios.jobs import group, job
from tests.scenarios.scene import JOBS

pytestmark = pytest.mark.real

MOST_ANNOTATIONS = 262_144
"""Bytes of all annotations of one object."""
UNDER_WAY = "while the job is active: set spec.suspend first"

Object = dict[str, Any]


def _names() -> list[str]:
    return [crd["metadata"]["name"] for each in FRONTENDS.values() for crd in required_crds(each)]


@pytest.fixture(autouse=True)
async def client(real_kubeconfig: Path, job_kinds: None) -> AsyncIterator[KubeClient]:
    """A client of a server that answers for our kinds, which is a moment after it has learnt of them."""
    transport = create_transport(real_kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    informer = Informer(client, JOBS, dict)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(informer.run())
        await informer.wait_synced()
        following.cancel()
    yield client
    await transport.aclose()


async def accept(client: KubeClient, name: str) -> None:
    """Write the status that an operator would."""
    status = {"status": {"pliant": {"phase": "Running"}}}
    await client.patch(JOBS, "default", name, status, subresource="status")


@pytest.fixture
async def stored(client: KubeClient) -> AsyncIterator[Object]:
    """A job that an operator has accepted, with a group `worker` and a group `ps`."""
    made = await client.create(JOBS, "default", job("stored", {"worker": group("exit 0", 2), "ps": group("exit 0")}))
    await accept(client, "stored")
    yield made
    await client.delete(JOBS, "default", "stored")


def test_kubectl_applies_the_definitions_from_the_client_side_and_again_without_a_change(real_kubeconfig: Path) -> None:
    again = kubectl(real_kubeconfig, "apply", "-f", "-", stdin=printed("crds"))
    assert [line.split()[-1] for line in again.splitlines()] == ["unchanged"] * len(_names())


async def test_what_kubectl_remembers_of_a_definition_leaves_room_for_more(client: KubeClient) -> None:
    for name in _names():
        annotations = (await client.get(CRDS, None, name))["metadata"]["annotations"]
        assert 0 < len(json.dumps(annotations)) < MOST_ANNOTATIONS * 2 / 3


def test_jobs_are_found_by_their_short_name_and_their_category_and_stay_out_of_all(real_kubeconfig: Path) -> None:
    listed = kubectl(real_kubeconfig, "api-resources", "--categories=pliant", "--no-headers")
    named = [line.split()[:2] for line in listed.splitlines()]
    assert ["aitrainingjobs", "aitj"] in named
    kubectl(real_kubeconfig, "get", "pliant")
    assert "aitrainingjobs" not in kubectl(real_kubeconfig, "api-resources", "--categories=all", "-o", "name")


async def _explained(client: KubeClient) -> None:
    """Return once the server's own description tells of our kinds; no watch tells when it does."""
    async with asyncio.timeout(30):
        while b"/namespaces/{namespace}/aitrainingjobs" not in await _description(client):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _description(client: KubeClient) -> bytes:
    try:
        return await client.get_raw("/openapi/v3/apis/elasticdeeplearning.ai/v1")
    except NotFound:
        return b""


async def test_fields_explain_themselves(client: KubeClient, real_kubeconfig: Path) -> None:
    await _explained(client)
    wait_served(real_kubeconfig, "aitj")  # what is described may still be missing from the list of what there is
    told = " ".join(kubectl(real_kubeconfig, "explain", "aitj.spec.suspend").split())
    assert "FIELD: suspend <boolean>" in told
    assert "timeLimit is paused" in told
    deep = kubectl(real_kubeconfig, "explain", "aitj.spec.replicaSpecs.template.spec.containers.resources.limits")
    assert "limits" in deep


NONE = {"completePolicy": "None"}
NEVER = {"edlPolicy": "Never"}


@pytest.mark.parametrize(
    ("groups", "fields", "message"),
    [
        ({"w": {"minReplicas": 3, "maxReplicas": 2}}, {}, "minReplicas must be at most maxReplicas"),
        ({"w": {"replicas": 1, "minReplicas": 2}}, {}, "replicas must be at least minReplicas"),
        ({"w": {"replicas": 3, "maxReplicas": 2}}, {}, "replicas must be at most maxReplicas"),
        ({"w": {"replicas": -1}}, {}, "should be greater than or equal to 0"),
        ({"w": {"replicas": 10_001}}, {}, "should be less than or equal to 10000"),
        ({"w": {"restartLimit": -1}}, {}, "should be greater than or equal to 0"),
        ({"w": {"restartPolicy": "onfailure"}}, {}, 'Unsupported value: "onfailure"'),
        ({"w": {"restartScope": "Node"}}, {}, 'Unsupported value: "Node"'),
        ({"w": {}}, {"timeLimit": -1}, "should be greater than or equal to 0"),
        ({"w": {}}, {"cleanPodPolicy": "Some"}, 'Unsupported value: "Some"'),
        ({"w": {}}, {"elastic": {"group": "v"}}, "elastic.group must name one of the groups"),
        ({"a": {}, "b": {}}, {"elastic": {"replicas": 2}}, "elastic.group is required"),
        ({"w": NEVER}, {"elastic": {"replicas": 2}}, "edlPolicy Never: the size of the elastic group is fixed"),
        ({"a": NONE, "b": NONE}, {}, "at least one group must have a completePolicy other than None"),
        ({f"w{n}": {} for n in range(65)}, {}, "must have at most 64 items"),
        ({}, {}, "should have at least 1 properties"),
    ],
)
async def test_what_makes_no_job_is_refused(
    client: KubeClient, groups: Mapping[str, Object], fields: Object, message: str
) -> None:
    made = {name: {**group("exit 0"), **each} for name, each in groups.items()}
    with pytest.raises(Invalid) as refusal:
        await client.create(JOBS, "default", job("refused", made, **fields))
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"restartingExitCode": "137,128"},
        {"restartingExitCode": 137},
        {"restartingExitCode": [137, "128"]},
        {"cleanPodPolicy": "", "failPolicy": None, "completePolicy": "", "priority": None, "timeLimit": None},
        {"elastic": {"group": "", "replicas": 1}},
        {"elastic": None},
        {"timeLimit": 2**63 - 1},
    ],
)
async def test_what_the_original_took_is_taken(client: KubeClient, fields: Object) -> None:
    await client.create(JOBS, "default", job("old", {"worker": group("exit 0")}, **fields))
    await client.delete(JOBS, "default", "old")


async def test_numbers_are_quantities_and_null_lists_are_no_lists(client: KubeClient) -> None:
    old = job("old", {"worker": {**group("exit 0"), "restartPolicy": "", "restartScope": None}})
    pod = old["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    pod |= {"volumes": None, "initContainers": None, "tolerations": None, "nodeSelector": None}
    resources = {"limits": {"cpu": 0.5, "memory": 1073741824, "nvidia.com/gpu": 1}}
    pod["containers"][0] |= {"env": None, "ports": None, "resources": resources}
    made = await client.create(JOBS, "default", old)
    await client.delete(JOBS, "default", "old")
    kept = made["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    assert kept["resources"] == resources


def test_unknown_fields_are_dropped_with_a_warning_or_refused_as_kubectl_is_told(real_kubeconfig: Path) -> None:
    text = json.dumps(job("odd", {"worker": {**group("exit 0"), "replicsa": 2}}))
    with pytest.raises(AssertionError, match=r'unknown field "spec\.replicaSpecs\.worker\.replicsa"'):
        kubectl(real_kubeconfig, "apply", "--dry-run=server", "-f", "-", stdin=text)
    taken = kubectl(real_kubeconfig, "apply", "--dry-run=server", "--validate=warn", "-o=json", "-f", "-", stdin=text)
    assert "replicsa" not in json.loads(taken)["spec"]["replicaSpecs"]["worker"]


TEMPLATE = {"replicaSpecs": {"worker": {"template": {"metadata": {"labels": {"a": "b"}}}}}}
ADDED = {"replicaSpecs": {"more": group("exit 0")}}
REMOVED = {"replicaSpecs": {"ps": None}}
RENAMED = {"replicaSpecs": {"ps": None, "pserver": group("exit 0")}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (TEMPLATE, f"spec.replicaSpecs: Invalid value: the template of a group cannot change {UNDER_WAY}"),
        (ADDED, f"spec.replicaSpecs: Invalid value: groups cannot be added or removed {UNDER_WAY}"),
        (REMOVED, f"groups cannot be added or removed {UNDER_WAY}"),
        (RENAMED, f"groups cannot be added or removed {UNDER_WAY}"),
        ({"managedBy": "kueue"}, f"spec.managedBy: Invalid value: managedBy cannot change {UNDER_WAY}"),
    ],
)
async def test_a_job_under_way_keeps_its_groups_templates_and_keeper_until_it_is_suspended(
    client: KubeClient, stored: Object, change: Object, message: str
) -> None:
    async def edit(spec: Object) -> None:
        await client.patch(JOBS, "default", "stored", {"spec": spec})

    with pytest.raises(Invalid) as refusal:
        await edit(change)
    assert message in str(refusal.value)
    await edit({"suspend": True})
    await edit(change)
    # Whoever resumes a job may bring the last changes along, and whoever suspends it the first ones.
    await edit({"suspend": False, **_undone(change, stored["spec"])})
    await edit({"suspend": True, **change})


def _undone(change: Object, before: Object) -> Object:
    """The patch that takes a change back."""
    after = copy.deepcopy(before)
    for name, fields in change.get("replicaSpecs", {}).items():
        if fields is None:
            del after["replicaSpecs"][name]
        else:
            after["replicaSpecs"][name] = fields
    if "managedBy" in change:
        after["managedBy"] = change["managedBy"]
    return {**build_merge_patch(after, before)}


@pytest.mark.parametrize(
    "change",
    [
        {"replicaSpecs": {"worker": {"replicas": 5}}},
        {"replicaSpecs": {"worker": {"restartLimit": 5, "restartPolicy": "Always"}}},
        {"timeLimit": 60, "cleanPodPolicy": "None"},
        {"elastic": {"group": "worker", "replicas": 3}},
    ],
)
async def test_all_else_may_be_edited_while_a_job_runs(client: KubeClient, stored: Object, change: Object) -> None:
    await client.patch(JOBS, "default", "stored", {"spec": change})


async def test_the_largest_jobs_fit_into_what_rules_may_cost(client: KubeClient) -> None:
    """Nearly as large as etcd takes: no rule may be too dear for a job that could be stored."""
    groups = {f"g{number}": group("exit 0") for number in range(64)}
    for each in groups.values():
        each["template"]["spec"]["containers"][0]["env"] = [
            {"name": f"V{number}", "value": "x" * 40} for number in range(200)
        ]
    large = job("large", groups, suspend=True)
    assert len(json.dumps(large)) > 900_000
    await client.create(JOBS, "default", large)
    await accept(client, "large")
    await client.patch(JOBS, "default", "large", {"spec": {"suspend": False}})
    await client.patch(JOBS, "default", "large", {"spec": {"priority": "low"}})
    other = {"g63": {"template": {"spec": {"hostNetwork": True}}}}
    with pytest.raises(Invalid, match="the template of a group cannot change"):
        await client.patch(JOBS, "default", "large", {"spec": {"replicaSpecs": other}})
    await client.delete(JOBS, "default", "large")


async def test_scale_works_from_the_start_and_can_be_read_once_a_size_was_asked_for(
    client: KubeClient, real_kubeconfig: Path
) -> None:
    await client.create(JOBS, "default", job("sized", {"worker": group("exit 0", 2)}))
    with pytest.raises(ServerError, match=r'the spec replicas field "\.spec\.elastic\.replicas" does not exist'):
        await client.get(JOBS, "default", "sized", subresource="scale")
    kubectl(real_kubeconfig, "scale", "aitj/sized", "--replicas=3")
    assert (await client.get(JOBS, "default", "sized", subresource="scale"))["spec"] == {"replicas": 3}
    kubectl(real_kubeconfig, "scale", "aitj/sized", "--current-replicas=3", "--replicas=1")
    assert (await client.get(JOBS, "default", "sized"))["spec"]["elastic"] == {"replicas": 1}
    await client.delete(JOBS, "default", "sized")


async def test_a_list_of_replicas_is_taken_in_any_case_and_what_is_wrong_with_it_is_named(client: KubeClient) -> None:
    kind = FRONTENDS["mpba.fbk.eu", "MXJob"]
    resource = Resource(kind.group, kind.version, kind.plural, kind.kind)
    template = {"spec": {"containers": [{"name": "main", "image": "any"}]}}

    def listed(*types: str) -> Object:
        spec = [{"replicaType": each, "template": template} for each in types]
        return {"apiVersion": "mpba.fbk.eu/v1", "kind": "MXJob", "metadata": {"name": "listed"}, "spec": spec}

    made = await client.create(resource, "default", listed("SCHEDULER", "Server", "worker"))
    assert [each["replicaType"] for each in made["spec"]] == ["SCHEDULER", "Server", "worker"]
    await client.delete(resource, "default", "listed")
    with pytest.raises(Invalid, match=r"spec\[0\]\.replicaType.*must be one of scheduler, server, worker"):
        await client.create(resource, "default", listed("trainer"))
    with pytest.raises(Invalid, match="replicaType must be unique"):
        await client.create(resource, "default", listed("worker", "WORKER"))
    with pytest.raises(Invalid, match=r"spec"):
        await client.create(resource, "default", listed())
