"""What two API servers should answer alike about ephemeral containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.kube.transport.base import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.controlplane.exchange import IN, Exchange, pod


def debug_exchanges() -> Iterator[Exchange]:
    """All of them, in order; the namespace is there already."""
    pods, one = f"{IN}/pods", f"{IN}/pods/debugged"
    ephemeral = f"{one}/ephemeralcontainers"
    yield Exchange("create a pod to debug", "POST", pods, pod("debugged"))
    yield Exchange("create a pod that debugs itself", "POST", pods, pod("n", ephemeralContainers=[container("a")]))
    yield Exchange("get its ephemeral containers", "GET", ephemeral)
    yield Exchange("debug a pod", "PATCH", ephemeral, added(container("a")), media=STRATEGIC_MERGE_PATCH)
    present = [container("a"), of_main()]
    yield Exchange("debug a container", "PATCH", ephemeral, added(*present), media=MERGE_PATCH)
    yield Exchange("get the pod that is debugged", "GET", one)
    mistakes: dict[str, dict[str, Any]] = {
        "by a container of the pod": container("main"),
        "by a bad name": container("Bad_Name"),
        "without an image": {"name": "x", "command": ["sh"]},
        "a container that is not there": container("x", targetContainerName="none"),
        "another debugger": container("x", targetContainerName="a"),
        "with a port": container("x", ports=[{"containerPort": 80}]),
        "with requests": container("x", resources={"requests": {"cpu": "1"}}),
        "with a probe": container("x", livenessProbe={"exec": {"command": ["true"]}}),
        "with a volume that is not there": container("x", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
    }
    for said, each in mistakes.items():
        yield Exchange(f"debug a pod {said}", "PATCH", ephemeral, added(*present, each), media=MERGE_PATCH)
    changed = added(container("a", command=["false"]))
    yield Exchange("debug a pod with the command changed", "PATCH", ephemeral, changed, media=STRATEGIC_MERGE_PATCH)
    yield Exchange("end debugging", "PATCH", ephemeral, added(), media=MERGE_PATCH)
    yield Exchange("end it with the pod", "PATCH", one, added(), media=MERGE_PATCH)
    yield Exchange("debug with the pod", "PATCH", one, added(container("x")), media=STRATEGIC_MERGE_PATCH)
    labels = {"metadata": {"labels": {"a": "b"}}, **added(*present, container("b"))}
    yield Exchange("label it while debugging", "PATCH", ephemeral, labels, media=MERGE_PATCH)
    yield Exchange("debug nothing", "PATCH", f"{pods}/none/ephemeralcontainers", added(), media=MERGE_PATCH)
    yield Exchange("delete its ephemeral containers", "DELETE", ephemeral)
    yield Exchange("delete the pod to debug", "DELETE", one, query={"gracePeriodSeconds": "0"})


def container(name: str, **fields: Any) -> dict[str, Any]:
    """An ephemeral container."""
    return {"name": name, "image": "busybox:1", "command": ["sh"], "stdin": True, "tty": True, **fields}


def of_main() -> dict[str, Any]:
    """An ephemeral container that sees the processes of the first container."""
    return container("of-main", targetContainerName="main")


def added(*containers: dict[str, Any]) -> dict[str, Any]:
    """A patch that adds them."""
    return {"spec": {"ephemeralContainers": list(containers)}}
