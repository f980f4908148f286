"""Ephemeral containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.kube.transport.base import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import A, Step
from tests.differential.table.pods import pod


def _steps() -> Iterator[Step]:
    pods, one = f"{A}/pods", f"{A}/pods/debugged"
    ephemeral = f"{one}/ephemeralcontainers"
    yield Step("POST", pods, pod("debugged"))
    yield Step("POST", pods, pod("n", ephemeralContainers=[_container("a")]))
    yield Step("GET", ephemeral)
    yield Step("PATCH", ephemeral, _patch(_container("a")), media=STRATEGIC_MERGE_PATCH)
    present = [_container("a"), _container_of_main()]
    yield Step("PATCH", ephemeral, _patch(*present), media=MERGE_PATCH)
    yield Step("GET", one)
    mistakes: tuple[dict[str, Any], ...] = (
        _container("main"),
        _container("Bad_Name"),
        {"name": "x", "command": ["sh"]},
        _container("x", targetContainerName="none"),
        _container("x", targetContainerName="a"),
        _container("x", ports=[{"containerPort": 80}]),
        _container("x", resources={"requests": {"cpu": "1"}}),
        _container("x", livenessProbe={"exec": {"command": ["true"]}}),
        _container("x", resources={"limits": {}}),
        _container("x", ports=[]),
        _container("x", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
    )
    for each in mistakes:
        yield Step("PATCH", ephemeral, _patch(*present, each), media=MERGE_PATCH)
    changed = _patch(_container("a", command=["false"]))
    yield Step("PATCH", ephemeral, changed, media=STRATEGIC_MERGE_PATCH)
    yield Step("PATCH", ephemeral, _patch(), media=MERGE_PATCH)
    yield Step("PATCH", one, _patch(), media=MERGE_PATCH)
    yield Step("PATCH", one, _patch(_container("x")), media=STRATEGIC_MERGE_PATCH)
    yield Step("PUT", one, pod("debugged"))
    labels = {"metadata": {"labels": {"a": "b"}}, **_patch(*present, _container("b"))}
    yield Step("PATCH", ephemeral, labels, media=MERGE_PATCH)
    for metadata in ({"deletionGracePeriodSeconds": 5}, {"generateName": "zz-"}):
        yield Step("PATCH", ephemeral, {"metadata": metadata}, media=MERGE_PATCH)
    yield Step("PATCH", f"{pods}/none/ephemeralcontainers", _patch(), media=MERGE_PATCH)
    yield Step("DELETE", ephemeral)
    yield Step("DELETE", one, query={"gracePeriodSeconds": "0"})


def _container(name: str, **fields: Any) -> dict[str, Any]:
    """An ephemeral container."""
    return {"name": name, "image": "busybox:1", "command": ["sh"], "stdin": True, "tty": True, **fields}


def _container_of_main() -> dict[str, Any]:
    """An ephemeral container that sees the processes of the first container."""
    return _container("of-main", targetContainerName="main")


def _patch(*containers: dict[str, Any]) -> dict[str, Any]:
    """A patch that adds them."""
    return {"spec": {"ephemeralContainers": list(containers)}}


SEQUENCES: dict[str, list[Step]] = {"ephemeral containers": list(_steps())}
