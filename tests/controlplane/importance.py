"""What two API servers should answer alike about how important pods are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.kube.transport.base import MERGE_PATCH
from tests.controlplane.exchange import IN, TABLE, Exchange, pod

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def priority_exchanges() -> Iterator[Exchange]:
    """All of them, in order; the namespace is there already."""
    pods = f"{IN}/pods"
    yield Exchange("create a class", "POST", _CLASSES, _class("high", 1000, description="in a hurry"))
    yield Exchange("create a class twice", "POST", _CLASSES, _class("high", 1000))
    yield Exchange("create a class above all", "POST", _CLASSES, _class("above", 2_000_000_000))
    yield Exchange("create a class of the system", "POST", _CLASSES, _class("system-mine", 5))
    yield Exchange("create a class that is polite", "POST", _CLASSES, _class("polite", 5, preemptionPolicy="Never"))
    yield Exchange("create a class that is odd", "POST", _CLASSES, _class("odd", 5, preemptionPolicy="Perhaps"))
    yield Exchange("get a class", "GET", f"{_CLASSES}/high")
    named = {"fieldSelector": "metadata.name=high"}
    yield Exchange("get classes as table", "GET", _CLASSES, query=named, accept=TABLE)
    one = f"{_CLASSES}/high"
    yield Exchange("change the value of a class", "PATCH", one, {"value": 5}, media=MERGE_PATCH)
    never = {"preemptionPolicy": "Never"}
    yield Exchange("change the manners of a class", "PATCH", one, never, media=MERGE_PATCH)
    yield Exchange("describe a class", "PATCH", one, {"description": "not so much"}, media=MERGE_PATCH)
    yield Exchange("create a pod of a class", "POST", pods, pod("high", priorityClassName="high"))
    yield Exchange("create a pod of a polite class", "POST", pods, pod("polite", priorityClassName="polite"))
    yield Exchange("create a pod of no class", "POST", pods, pod("n", priorityClassName="none"))
    yield Exchange("create a pod of the system", "POST", pods, pod("s", priorityClassName="system-node-critical"))
    yield Exchange("create a pod with a number", "POST", pods, pod("n", priority=5))
    right = pod("right", priorityClassName="high", priority=1000)
    yield Exchange("create a pod with the right number", "POST", pods, right)
    wrong = pod("n", priorityClassName="high", priority=7)
    yield Exchange("create a pod with another number", "POST", pods, wrong)
    rude = pod("n", priorityClassName="polite", preemptionPolicy="PreemptLowerPriority")
    yield Exchange("create a pod ruder than its class", "POST", pods, rude)
    for name in ("high", "polite"):
        yield Exchange(f"delete the class {name}", "DELETE", f"{_CLASSES}/{name}")
    for name in ("high", "polite", "s", "right"):
        yield Exchange(f"delete the pod {name}", "DELETE", f"{pods}/{name}")


def _class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**about, "value": value, **fields}
