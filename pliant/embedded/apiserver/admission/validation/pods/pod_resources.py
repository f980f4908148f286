"""Defaults and validation of the resources that a pod as a whole requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.resources import is_pod_level_resource, validate_resources
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field
from pliant.embedded.apiserver.quota.amounts import Amounts, format_amounts, parse_amounts
from pliant.embedded.apiserver.quota.pod_resources import ResourceSection, container_amounts, pod_amounts
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_PATH: Final = "spec.resources"
_HUGE_PAGES: Final = "hugepages-"


def set_pod_resource_defaults(spec: Object) -> None:
    """Derive absent limits of huge pages and absent requests of a pod from those of its containers."""
    resources = spec.get("resources")
    if not resources:
        return
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits or requests:
        of_containers = format_amounts(_sum_containers(spec, "limits"))
        added = {name for name in of_containers if name.startswith(_HUGE_PAGES) and name not in requests}
        limits = {**{name: of_containers[name] for name in added}, **limits}
    if not limits:
        return
    resources["limits"] = limits
    of_containers = format_amounts(_sum_containers(spec, "requests"))
    merged = {
        **{name: value for name, value in limits.items() if is_pod_level_resource(name)},
        **{name: value for name, value in of_containers.items() if name in ("cpu", "memory")},
        **requests,
    }
    if merged:
        resources["requests"] = merged


def _sum_containers(spec: Object, section: ResourceSection) -> Amounts:
    return pod_amounts({**spec, "resources": None}, section)


def validate_pod_resources(spec: Object) -> Iterator[FieldError]:
    resources = spec.get("resources")
    if resources is None:
        return
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden_field(_PATH, "may not be set for a windows pod")
        return
    if resources.get("claims"):
        yield forbidden_field(f"{_PATH}.claims", "claims may not be set for Resources at pod-level")
    claims = {each.get("name") or "" for each in spec.get("resourceClaims") or ()}
    yield from validate_resources(resources, _PATH, claims, is_pod=True)
    yield from _validate_sums(spec, "requests", "")
    yield from _validate_sums(spec, "limits", _HUGE_PAGES)
    limits = parse_amounts(resources.get("limits"))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, amount in container_amounts(container, "limits").items():
            if name in limits and amount.nanos > limits[name].nanos:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid_field(f"{_PATH}.containers[{index}][{name}].limits", str(amount), detail)


def _validate_sums(spec: Object, section: ResourceSection, prefix: str) -> Iterator[FieldError]:
    own = parse_amounts(spec["resources"].get(section))
    for name, amount in _sum_containers(spec, section).items():
        if name.startswith(prefix) and name in own and amount.nanos > own[name].nanos:
            detail = f"must be greater than or equal to aggregate container {section} of {amount}"
            yield invalid_field(f"{_PATH}.{section}[{name}]", str(own[name]), detail)
