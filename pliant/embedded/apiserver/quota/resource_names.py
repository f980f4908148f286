"""The names of resources that quotas and limits may contain."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import qualified_name_problem
from pliant.schemas.quantity import parse_quantity

REQUESTS_PREFIX: Final = "requests."
HUGE_PAGES_PREFIX: Final = "hugepages-"
_HUGE_PAGES_PREFIXES: Final = (HUGE_PAGES_PREFIX, REQUESTS_PREFIX + HUGE_PAGES_PREFIX)
_DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_OBJECT_COUNTS: Final = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
_QUOTA_RESOURCES: Final = frozenset(
    {
        *_CONTAINER_RESOURCES,
        *(f"{section}.{name}" for section in ("requests", "limits") for name in _CONTAINER_RESOURCES),
        "requests.storage",
        *_OBJECT_COUNTS,
    }
)
_RESOURCES: Final = _QUOTA_RESOURCES | {"storage"}
_INVALID_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def is_native_resource(name: str) -> bool:
    """Return whether a resource belongs to Kubernetes: it has no domain, or one of kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource(name: str) -> bool:
    if is_native_resource(name) or name.startswith(REQUESTS_PREFIX):
        return False
    return not qualified_name_problem(REQUESTS_PREFIX + name)


def is_device_resource(name: str) -> bool:
    """Return whether containers request a resource as a whole number of devices."""
    return is_extended_resource(name) or name.startswith(_DEVICE_CLASS_PREFIX)


def is_extended_quota_resource(name: str) -> bool:
    """Return whether a quota limits the requests of an extended resource, such as `requests.nvidia.com/gpu`."""
    if not name.startswith(REQUESTS_PREFIX):
        return False
    return not is_native_resource(name) or name.startswith(REQUESTS_PREFIX + _DEVICE_CLASS_PREFIX)


def is_standard_quota_resource(name: str) -> bool:
    return name in _QUOTA_RESOURCES or name.startswith(_HUGE_PAGES_PREFIXES)


def is_integer_resource(name: str) -> bool:
    return name in _OBJECT_COUNTS or is_extended_resource(name)


def validate_resource_name(name: str, path: str) -> list[FieldError]:
    if message := qualified_name_problem(name):
        return [invalid_field(path, name, message)]
    if "/" not in name and name not in _RESOURCES and not name.startswith(_HUGE_PAGES_PREFIXES):
        return [invalid_field(path, name, "must be a standard resource type or fully qualified")]
    return []


def validate_container_resource_name(name: str, path: str) -> list[FieldError]:
    errors = validate_resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES_PREFIX):
            errors.append(invalid_field(path, name, "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        errors.append(invalid_field(path, name, "doesn't follow extended resource name standard"))
    return errors


def validate_quota_resource_name(name: str, path: str) -> list[FieldError]:
    errors = validate_resource_name(name, path)
    if "/" not in name and not is_standard_quota_resource(name):
        errors.append(invalid_field(path, name, "must be a standard resource for quota"))
    return errors


def quantity_problem(value: Any) -> str:
    """Return what is wrong with a quantity; the schema validates only the form of strings."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _INVALID_QUANTITY
    try:
        parse_quantity(value)
    except ValueError:
        return _INVALID_QUANTITY
    return ""
