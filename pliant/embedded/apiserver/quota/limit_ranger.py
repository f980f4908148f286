"""The admission plug-in LimitRanger: sets default resources of containers, and enforces the limits of LimitRanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.handlers.object_lifecycle import PODS_RESOURCE_KEY
from pliant.embedded.apiserver.http.errors import forbidden
from pliant.embedded.apiserver.quota.amounts import ZERO, Amount, Amounts, parse_amounts
from pliant.embedded.apiserver.quota.pod_resources import container_amounts, pod_amounts
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object

LIMIT_RANGES_RESOURCE_KEY: Final = "/limitranges"
CLAIMS_RESOURCE_KEY: Final = "/persistentvolumeclaims"
LIMIT_RANGER_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_LIMITED_RESOURCE_KEYS: Final = frozenset({PODS_RESOURCE_KEY, CLAIMS_RESOURCE_KEY})
_NANOS_PER_MILLI: Final = 10**6
_NANOS_PER_UNIT: Final = 10**9
_MAX_MILLI_NANOS: Final = (2**63 - 1) // 1000 * _NANOS_PER_UNIT
"""Larger amounts are compared in whole units."""
_Constraint = Callable[[str, str, Amount, Amounts, Amounts], str]


class LimitRanger:
    def is_active(self, transaction: Transaction, kind: Kind, namespace: str) -> bool:
        return kind.resource_key in _LIMITED_RESOURCE_KEYS and transaction.committed.has_objects(
            LIMIT_RANGES_RESOURCE_KEY, namespace
        )

    def mutate(self, request: AdmissionRequest) -> None:
        """Give the containers of a new pod the default requests and limits that they lack."""
        if request.kind.resource_key == PODS_RESOURCE_KEY and _is_limited(request) and request.obj is not None:
            for limit_range in _list_limit_ranges(request):
                _set_default_resources(request.obj, limit_range)

    def validate(self, request: AdmissionRequest) -> None:
        """Raise `Forbidden` if a pod or claim violates a LimitRange of its namespace."""
        if not _is_limited(request) or request.obj is None:
            return
        find_violations = _pod_violations if request.kind.resource_key == PODS_RESOURCE_KEY else _claim_violations
        for limit_range in _list_limit_ranges(request):
            violations = list(dict.fromkeys(filter(None, find_violations(limit_range, request.obj))))
            if violations:
                detail = violations[0] if len(violations) == 1 else f"[{', '.join(violations)}]"
                raise forbidden(request.kind, request.name, detail)


def _is_limited(request: AdmissionRequest) -> bool:
    """Return whether limits apply: to new pods, and to claims that are not terminating."""
    if request.subresource or request.operation not in (Operation.CREATE, Operation.UPDATE):
        return False
    if request.old is not None and request.old["metadata"].get("deletionTimestamp"):
        return False
    return request.operation is Operation.CREATE or request.kind.resource_key == CLAIMS_RESOURCE_KEY


def _list_limit_ranges(request: AdmissionRequest) -> list[Object]:
    records = request.transaction.list_objects(LIMIT_RANGES_RESOURCE_KEY, request.namespace)
    return [record.decode() for record in records]


def _limit_items(limit_range: Object, limit_type: str) -> list[Object]:
    items = (limit_range.get("spec") or {}).get("limits") or ()
    return [item for item in items if item.get("type") == limit_type]


def _set_default_resources(pod: Object, limit_range: Object) -> None:
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for item in _limit_items(limit_range, "Container"):
        requests.update(item.get("defaultRequest") or {})
        limits.update(item.get("default") or {})
    notes = []
    for group, title in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(group) or ():
            for section, defaults in (("requests", requests), ("limits", limits)):
                if added := _add_missing(container, section, defaults):
                    notes.append(f"{', '.join(added)} {section.removesuffix('s')} for {title} {container['name']}")
    if notes:
        note = "LimitRanger plugin set: " + "; ".join(notes)
        metadata = pod["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), LIMIT_RANGER_ANNOTATION: note}


def _add_missing(container: Object, section: str, defaults: Mapping[str, Any]) -> list[str]:
    """Add default quantities to the requests or limits of a container; return the names that were missing."""
    resources = container.get("resources") or {}
    present = resources.get(section) or {}
    missing = sorted(defaults.keys() - present.keys())
    if missing:
        quantities = {**present, **{name: defaults[name] for name in missing}}
        container["resources"] = {**resources, section: quantities}
    return missing


def _pod_violations(limit_range: Object, pod: Object) -> Iterator[str]:
    spec = pod["spec"]
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                requests, limits = container_amounts(container, "requests"), container_amounts(container, "limits")
                yield from _violations(item, requests, limits)
        elif item.get("type") == "Pod":
            yield from _violations(item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _claim_violations(limit_range: Object, claim: Object) -> Iterator[str]:
    requests = parse_amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    for item in _limit_items(limit_range, "PersistentVolumeClaim"):
        yield from _check(item, "min", _below_minimum, requests, {})
        yield from _check(item, "max", _request_above_maximum, requests, {})


def _violations(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _check(item, "min", _below_minimum, requests, limits)
    yield from _check(item, "max", _above_maximum, requests, limits)
    yield from _check(item, "maxLimitRequestRatio", _above_ratio, requests, limits)


def _check(item: Object, field: str, constraint: _Constraint, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield what violates one field of a limit; an empty text where nothing does."""
    for name, enforced in sorted(parse_amounts(item.get(field)).items()):
        yield constraint(item["type"], name, enforced, requests, limits)


def _below_minimum(limit_type: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(name), limits.get(name)
    requested, limited, minimum = _comparable(request or ZERO, limit or ZERO, enforced)
    rule = f"minimum {name} usage per {limit_type} is {enforced}"
    if request is None:
        return f"{rule}.  No request is specified"
    if requested < minimum:
        return f"{rule}, but request is {request}"
    if limit is not None and limited < minimum:
        return f"{rule}, but limit is {limit}"
    return ""


def _above_maximum(limit_type: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    request, limit = requests.get(name), limits.get(name)
    requested, limited, largest = _comparable(request or ZERO, limit or ZERO, enforced)
    rule = f"maximum {name} usage per {limit_type} is {enforced}"
    if limit is None:
        return f"{rule}.  No limit is specified"
    if limited > largest:
        return f"{rule}, but limit is {limit}"
    if request is not None and requested > largest:
        return f"{rule}, but request is {request}"
    return ""


def _request_above_maximum(limit_type: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    request = requests.get(name)
    requested, _, largest = _comparable(request or ZERO, ZERO, enforced)
    rule = f"maximum {name} usage per {limit_type} is {enforced}"
    if request is None:
        return f"{rule}.  No request is specified"
    return f"{rule}, but request is {request}" if requested > largest else ""


def _above_ratio(limit_type: str, name: str, enforced: Amount, requests: Amounts, limits: Amounts) -> str:
    requested, limited, _ = _comparable(requests.get(name, ZERO), limits.get(name, ZERO), enforced)
    rule = f"{name} max limit to request ratio per {limit_type} is {enforced}"
    if requested == 0:
        return f"{rule}, but no request is specified or request is 0"
    if limited == 0:
        return f"{rule}, but no limit is specified or limit is 0"
    ratio = limited / requested
    is_above = ratio * _NANOS_PER_UNIT > enforced.nanos
    return f"{rule}, but provided ratio is {ratio:.6f}" if is_above else ""


def _comparable(*amounts: Amount) -> list[int]:
    """Return amounts rounded up to thousandths, or to whole units if one of them is very large."""
    precision = _NANOS_PER_MILLI if all(each.nanos <= _MAX_MILLI_NANOS for each in amounts) else _NANOS_PER_UNIT
    return [-(-each.nanos // precision) for each in amounts]
