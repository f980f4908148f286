"""The requests and limits of a pod: of its containers, its init containers and the pod itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pliant.embedded.apiserver.quota.amounts import Amounts, add, maximum, parse_amounts

Object = Mapping[str, Any]
ResourceSection = Literal["requests", "limits"]
_POD_LEVEL_RESOURCES: Final = ("cpu", "memory")
_HUGE_PAGES_PREFIX: Final = "hugepages-"


def container_amounts(container: Object, section: ResourceSection) -> Amounts:
    return parse_amounts((container.get("resources") or {}).get(section))


def pod_amounts(spec: Object, section: ResourceSection) -> Amounts:
    """Return what a pod requests, or its limits: of all containers together, at least of each init container.

    Sidecars count with the containers, and with each init container after them. Resources of the pod itself replace
    those of its containers.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = add(total, container_amounts(container, section))
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = container_amounts(container, section)
        if container.get("restartPolicy") == "Always":
            total = add(total, amounts)
            sidecars = add(sidecars, amounts)
            highest = maximum(highest, sidecars)
        else:
            highest = maximum(highest, add(amounts, sidecars))
    total = maximum(total, highest)
    own = parse_amounts((spec.get("resources") or {}).get(section))
    return {**total, **{name: amount for name, amount in own.items() if _is_pod_level_resource(name)}}


def has_pod_level_resources(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    names = [name for section in ("requests", "limits") for name in resources.get(section) or ()]
    return any(_is_pod_level_resource(name) for name in names)


def _is_pod_level_resource(name: str) -> bool:
    return name in _POD_LEVEL_RESOURCES or name.startswith(_HUGE_PAGES_PREFIX)
