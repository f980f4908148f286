"""Defaults and validation of roles and bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.authorization.rbac_index import (
    CLUSTER_ROLE_BINDINGS_KEY,
    CLUSTER_ROLES_KEY,
    RBAC_API_GROUP,
    ROLE_BINDINGS_KEY,
    ROLES_KEY,
)
from pliant.embedded.apiserver.http.errors import invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_SUBDOMAIN_RULE, PATH_SEGMENT_RULE, name_problem
from pliant.embedded.storage.stored_objects import Object

_SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


def set_binding_defaults(binding: Object, old: Object | None) -> None:
    """Set the API group of the role and of users and groups."""
    role = binding.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or RBAC_API_GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC_API_GROUP


def validate_role(role: Object, old: Object | None) -> list[FieldError]:
    return [error for path, rule in _numbered("rules", role.get("rules")) for error in _validate_rule(path, rule, True)]


def validate_cluster_role(role: Object, old: Object | None) -> list[FieldError]:
    rules = _numbered("rules", role.get("rules"))
    errors = [error for path, rule in rules for error in _validate_rule(path, rule, False)]
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return errors
    path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors")
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [*errors, required_field(path, detail)]
    for selector_path, selector in _numbered(path, selectors):
        found = list(validate_label_selector(selector, selector_path))
        if found:  # the selector cannot be read as one, either
            errors += [*found, invalid_field(selector_path, selector, "invalid label selector.")]
    return errors


def validate_role_binding(binding: Object, old: Object | None) -> list[FieldError]:
    return _validate_binding(binding, old, ("Role", "ClusterRole"))


def validate_cluster_role_binding(binding: Object, old: Object | None) -> list[FieldError]:
    errors = _validate_binding(binding, old, ("ClusterRole",))
    for path, subject in _numbered("subjects", binding.get("subjects")):
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            errors.append(required_field(f"{path}.namespace"))
    return errors


RBAC_DEFAULTERS: dict[str, Callable[[Object, Object | None], None]] = {
    ROLE_BINDINGS_KEY: set_binding_defaults,
    CLUSTER_ROLE_BINDINGS_KEY: set_binding_defaults,
}
RBAC_VALIDATORS: dict[str, Callable[[Object, Object | None], list[FieldError]]] = {
    ROLES_KEY: validate_role,
    CLUSTER_ROLES_KEY: validate_cluster_role,
    ROLE_BINDINGS_KEY: validate_role_binding,
    CLUSTER_ROLE_BINDINGS_KEY: validate_cluster_role_binding,
}


def _validate_rule(path: str, rule: Object, is_namespaced: bool) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors.append(required_field(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        field = f"{path}.nonResourceURLs"
        if is_namespaced:
            errors.append(invalid_field(field, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(map(rule.get, ("apiGroups", "resources", "resourceNames"))):
            errors.append(
                invalid_field(field, urls, "rules cannot apply to both regular resources and non-resource URLs")
            )
        return errors
    if not rule.get("apiGroups"):
        errors.append(required_field(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required_field(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _validate_binding(binding: Object, old: Object | None, role_kinds: Sequence[str]) -> list[FieldError]:
    role = binding["roleRef"]
    errors = []
    if old is not None and role != old["roleRef"]:
        errors.append(invalid_field("roleRef", role, "cannot change roleRef"))
    if role["apiGroup"] != RBAC_API_GROUP:
        errors.append(unsupported_value("roleRef.apiGroup", role["apiGroup"], (RBAC_API_GROUP,)))
    if (kind := role.get("kind") or "") not in role_kinds:
        errors.append(unsupported_value("roleRef.kind", kind, role_kinds))
    if not role.get("name"):
        errors.append(required_field("roleRef.name"))
    elif problem := name_problem(role["name"], PATH_SEGMENT_RULE):
        errors.append(invalid_field("roleRef.name", role["name"], problem))
    for path, subject in _numbered("subjects", binding.get("subjects")):
        errors += _validate_subject(path, subject)
    return errors


def _validate_subject(path: str, subject: Object) -> list[FieldError]:
    errors = []
    if not subject.get("name"):
        errors.append(required_field(f"{path}.name"))
    kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
    name = subject.get("name") or ""
    if kind == "ServiceAccount" and name and (problem := name_problem(name, DNS_SUBDOMAIN_RULE)):
        errors.append(invalid_field(f"{path}.name", name, problem))
    expected = "" if kind == "ServiceAccount" else RBAC_API_GROUP
    if kind not in _SUBJECT_KINDS:
        errors.append(unsupported_value(f"{path}.kind", kind, _SUBJECT_KINDS))
    elif group != expected:
        errors.append(unsupported_value(f"{path}.apiGroup", group, (expected,)))
    return errors


def _numbered(path: str, items: Any) -> list[tuple[str, Object]]:
    return [(f"{path}[{index}]", item) for index, item in enumerate(items or ())]
