"""A cluster whose definition of our kind lets anything pass: nonsense is told by field, and harms nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CRDS
from pliant.runtime.clock import SystemClock
from tests.scenarios.cluster import Site, an_ordinary_user, cluster
from tests.scenarios.jobs import API_VERSION, FOREVER, KIND, group, job
from tests.scenarios.scene import JOBS, Scene

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A cluster of our own, for its definitions are changed; at its end no traceback may be in its log."""
    with an_ordinary_user() as user, cluster(user) as started:
        yield started


@pytest.fixture
async def scene(site: Site) -> AsyncIterator[Scene]:
    """A namespace in which no law is checked: tests write statuses themselves."""
    transport = create_transport(site.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    await _let_anything_pass(client)
    scene = Scene(client, "anything")
    await scene.open()
    yield scene
    await scene.empty()
    await scene.close()
    await transport.aclose()


async def _let_anything_pass(client: KubeClient) -> None:
    name = FRONTENDS["elasticdeeplearning.ai", KIND].crd()["metadata"]["name"]
    present = await client.get(CRDS, None, name)
    version = present["spec"]["versions"][0]
    version["schema"] = {"openAPIV3Schema": OPEN}
    version["subresources"].pop("scale", None)  # an API server checks the fields that a Scale shows
    await client.replace(CRDS, None, name, present)


def raw(name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def of_group(**fields: Any) -> Any:
    return {"replicaSpecs": {"worker": {**group("exit 0"), **fields}}}


def of_pod(**fields: Any) -> Any:
    return of_group(template={"spec": {"containers": [{"name": "main", "image": "x"}], **fields}})


def of_container(**fields: Any) -> Any:
    return of_pod(containers=[{"name": "main", "image": "x", **fields}])


W = "spec.replicaSpecs.worker"
POD = f"{W}.template.spec"
NONSENSE: dict[str, tuple[Any, str]] = {
    "no-spec": (None, "spec.replicaSpecs: is required"),
    "spec-number": (5, "spec: must be a mapping, got 5"),
    "groups-list": ({"replicaSpecs": ["worker"]}, 'spec.replicaSpecs: must be a mapping, got ["worker"]'),
    "group-null": ({"replicaSpecs": {"worker": None}}, f"{W}: must be a mapping, got null"),
    "no-groups": ({"replicaSpecs": {}}, "spec.replicaSpecs: needs at least one group"),
    "size-text": (of_group(replicas="two"), f'{W}.replicas: must be an integer, got "two"'),
    "size-half": (of_group(replicas=1.5), f"{W}.replicas: must be an integer, got 1.5"),
    "size-huge": (of_group(replicas=10**12), f"{W}.replicas: must be 10000 or less, got 1000000000000"),
    "policy": (of_group(restartPolicy="onfailure"), f'{W}.restartPolicy: "onfailure" is not one of'),
    "policy-map": (of_group(failPolicy={"a": 1}), f'{W}.failPolicy: {{"a":1}} is not one of'),
    "bounds": (of_group(minReplicas=3, maxReplicas=2), f"{W}.minReplicas: must be at most maxReplicas (2), got 3"),
    "template": (of_group(template=7), f"{W}.template: must be a mapping, got 7"),
    "no-containers": (of_pod(containers=[]), f"{POD}.containers: needs at least one container"),
    "containers": (of_pod(containers={"a": 1}), f'{POD}.containers: must be a list, got {{"a":1}}'),
    "init": (of_pod(initContainers=["fetch"]), f'{POD}.initContainers[0]: must be a mapping, got "fetch"'),
    "volumes": (of_pod(volumes="data"), f'{POD}.volumes: must be a list, got "data"'),
    "affinity": (of_pod(affinity=[]), f"{POD}.affinity: must be a mapping, got []"),
    "env": (of_container(env={"A": "b"}), f'{POD}.containers[0].env: must be a list, got {{"A":"b"}}'),
    "env-name": (of_container(env=[{"name": []}]), f"{POD}.containers[0].env[0].name: must be a string, got []"),
    "port": (of_container(ports=[{"containerPort": "http"}]), f"{POD}.containers[0].ports[0].containerPort: must be"),
    "codes": ({**of_group(), "restartingExitCode": {"a": 1}}, "spec.restartingExitCode: must list exit codes"),
    "limit": ({**of_group(), "timeLimit": "1h"}, 'spec.timeLimit: must be an integer, got "1h"'),
    "suspend": ({**of_group(), "suspend": "yes"}, 'spec.suspend: must be true or false, got "yes"'),
    "elastic": ({**of_group(), "elastic": {"group": "wrker"}}, 'spec.elastic.group: "wrker" is not one of worker'),
}


async def complaints(scene: Scene, name: str) -> tuple[dict[str, Any], str]:
    """What is said about a job in its status, and in an event."""
    await scene.until(lambda: scene.status(name).get("conditions"), f"a condition of {name}")
    event = await scene.until(lambda: scene.complaint(name), f"an event about {name}")
    return scene.status(name)["conditions"][-1], event


async def test_nonsense_is_told_by_field_in_condition_and_event_and_others_go_on(scene: Scene) -> None:
    await scene.submit(job("before", {"worker": group(FOREVER)}))
    for name, (spec, _) in NONSENSE.items():
        await scene.client.create(JOBS, scene.namespace, raw(name, spec))
    await scene.submit(job("after", {"worker": group("exit 0")}))
    await scene.until_phase("after", "Succeed")
    await scene.until_phase("before", "Running")
    for name, (_, problem) in NONSENSE.items():
        condition, event = await complaints(scene, name)
        assert (condition["type"], condition["status"]) == ("Invalid", "True")
        assert condition["message"].startswith(problem), name
        assert event == condition["message"]
    assert set(scene.pods) == {"before-worker-0"}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ("done", ""),
        (["done"], ""),
        ({"phase": 5, "conditions": 7, "RestartCount": "many"}, ""),
        ({"conditions": [1, {"type": 2}, None]}, ""),
        ({"pliant": "lost"}, "status.pliant: cannot be decoded"),
        ({"pliant": {"phase": "Levitating"}}, "status.pliant: cannot be decoded"),
        ({"pliant": {"phase": "Running", "startedAt": "2026-01-01T12:00:00"}}, "status.pliant: cannot be decoded"),
    ],
    ids=["text", "list", "fields", "conditions", "memory", "phase", "naive time"],
)
async def test_a_status_that_is_nonsense_is_written_over_or_told_of(scene: Scene, status: Any, problem: str) -> None:
    await scene.client.create(JOBS, scene.namespace, raw("odd", {**of_group(), "managedBy": "nobody"}))
    await scene.edit("odd", {"status": status}, subresource="status")
    await scene.edit("odd", {"spec": {"managedBy": None}})

    def answer() -> str:
        told = scene.job("odd").get("status")
        return str(told.get("message") or "") if isinstance(told, dict) else ""

    if problem:
        await scene.until(lambda: answer().startswith(problem), "the complaint")
        assert scene.pods == {}
    else:
        await scene.until(lambda: isinstance(scene.job("odd").get("status"), dict) and scene.phase("odd"), "a phase")
        await scene.until_phase("odd", "Succeed")
