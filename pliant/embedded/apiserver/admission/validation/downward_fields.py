"""Validation of references to fields and resources of a pod, in environment variables and volumes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_qualified_name
from pliant.embedded.apiserver.http.errors import invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

ENVIRONMENT_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
VOLUME_FIELDS: Final = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
)
_CONVERTIBLE_FIELDS: Final = frozenset(
    {
        *ENVIRONMENT_FIELDS,
        *VOLUME_FIELDS,
        *("spec.restartPolicy", "spec.schedulerName", "spec.host", "status.phase", "status.hostIP"),
    }
)
_RESOURCES: Final = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT: Final = re.compile(r"(.*)\['(.*)'\]")
_BYTE_DIVISORS: Final = frozenset({"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"})


def validate_field_ref(ref: Object, path: str, supported: Collection[str]) -> Iterator[FieldError]:
    field = ref.get("fieldPath") or ""
    if not ref.get("apiVersion"):
        yield required_field(f"{path}.apiVersion")
        return
    if not field:
        yield required_field(f"{path}.fieldPath")
        return
    subscript = _SUBSCRIPT.fullmatch(field)
    if ref["apiVersion"] != "v1" or (subscript is None and field not in _CONVERTIBLE_FIELDS):
        detail = f"error converting fieldPath: field label not supported: {field}"
        yield invalid_field(f"{path}.fieldPath", field, detail)
    elif subscript is not None and subscript[1] in ("metadata.annotations", "metadata.labels"):
        key = subscript[2].lower() if subscript[1] == "metadata.annotations" else subscript[2]
        yield from validate_qualified_name(path, key)
    elif subscript is not None:
        yield invalid_field(f"{path}.fieldPath", field, "error converting fieldPath: does not support subscript")
    elif field not in supported:
        yield unsupported_value(f"{path}.fieldPath", field, sorted(supported))


def validate_resource_ref(ref: Object, path: str, *, requires_container: bool = False) -> Iterator[FieldError]:
    resource = ref.get("resource") or ""
    if requires_container and not ref.get("containerName"):
        yield required_field(f"{path}.containerName")
    elif not resource:
        yield required_field(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield unsupported_value(f"{path}.resource", resource, _RESOURCES)
    divisor = str(ref.get("divisor") or "0")
    if divisor == "0":
        return
    kind = resource.partition(".")[2]
    if kind == "cpu" and divisor not in ("1", "1m"):
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
        yield invalid_field(f"{path}.divisor", resource, detail)
    is_bytes = kind in ("memory", "ephemeral-storage") or kind.startswith("hugepages-")
    if is_bytes and divisor not in _BYTE_DIVISORS:
        detail = f"only divisor's values 1 and powers of 1000 and 1024 are supported with the {kind} resource"
        yield invalid_field(f"{path}.divisor", resource, detail)
