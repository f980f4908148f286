"""Validation of the fields of a CRD, with the field paths and reasons of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import DNS_1035_LABEL_RULE, DNS_SUBDOMAIN_RULE, name_problem
from pliant.embedded.storage.stored_objects import Object

_SCOPES = ("Cluster", "Namespaced")


def find_field_errors(crd: Object) -> list[FieldError]:
    """Return the errors of names, scope and versions; without any, the other fields can be validated."""
    spec = crd["spec"]
    return [*_find_name_errors(crd, spec), *_find_version_errors(spec)]


def _find_name_errors(crd: Object, spec: Object) -> Iterator[FieldError]:
    names, group = spec.get("names") or {}, spec.get("group") or ""
    plural = names.get("plural") or ""
    for field in ("generateName", "name"):
        name = crd["metadata"].get(field)
        if name and name != f"{plural}.{group}":
            yield _invalid(f"metadata.{field}", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield _required("spec.group")
    elif problem := name_problem(group, DNS_SUBDOMAIN_RULE):
        yield _invalid("spec.group", group, problem)
    elif "." not in group:
        yield _invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if not scope:
        yield _required("spec.scope")
    elif scope not in _SCOPES:
        detail = "supported values: " + ", ".join(f'"{each}"' for each in _SCOPES)
        yield FieldError.of("spec.scope", FieldErrorType.UNSUPPORTED, scope, detail)
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield _required(f"spec.names.{field}")


def _find_version_errors(spec: Object) -> Iterator[FieldError]:
    versions: list[Object] = spec.get("versions") or []
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name") or ""
        if problem := name_problem(name, DNS_1035_LABEL_RULE) or ("" if name else DNS_1035_LABEL_RULE.message):
            yield _invalid(f"{path}.name", name, problem)
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield _required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    stored = sum(bool(version.get("storage")) for version in versions)
    if len({version.get("name") for version in versions}) != len(versions):
        yield _invalid("spec.versions", versions, "must contain unique version names")
    if stored != 1:
        yield _invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    first = (versions[0].get("name") or "") if versions else ""
    if first and (problem := name_problem(first, DNS_1035_LABEL_RULE)):
        yield _invalid("spec.version", first, problem)  # the field of v1beta1 that the first version sets
    if stored > 1:
        yield _invalid("status.storedVersions", None, "must have every storage version")
    if not stored:
        yield _invalid("status.storedVersions", None, "must have at least one stored version")


def _required(path: str, detail: str = "") -> FieldError:
    return FieldError.of(path, FieldErrorType.REQUIRED, None, detail)


def _invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError.of(path, FieldErrorType.INVALID, value, detail)
