"""Roles and who has them: kept for those who write them, and heeded by nobody, for here everything is allowed."""

from __future__ import annotations

from typing import Any, Final

from pliant.embedded.catalog.crds import kinds_of
from pliant.embedded.catalog.kinds import Kind

GROUP: Final = "rbac.authorization.k8s.io"
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_RULE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["verbs"],
    "properties": dict.fromkeys(("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs"), _TEXTS),
}
_NAMED: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["kind", "name"],
    "properties": dict.fromkeys(("apiGroup", "kind", "name"), _TEXT),
}
_SUBJECT: Final[dict[str, Any]] = {**_NAMED, "properties": {**_NAMED["properties"], "namespace": _TEXT}}


def access_kinds() -> tuple[Kind, ...]:
    """Role and RoleBinding, as plain objects of a namespace."""
    bound = {"roleRef": _NAMED, "subjects": {"type": "array", "items": _SUBJECT}}
    role = {"name": "Role", "type": "string", "jsonPath": ".roleRef.name"}
    return (
        *_kind("Role", {"rules": {"type": "array", "items": _RULE}}, ()),
        *_kind("RoleBinding", bound, (role,), required=["roleRef"]),
    )


def _kind(kind: str, fields: dict[str, Any], columns: tuple[Any, ...], **more: Any) -> tuple[Kind, ...]:
    age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields, **more}},
        "additionalPrinterColumns": [*columns, age],
    }
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return kinds_of(
        {
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [served]},
        }
    )
