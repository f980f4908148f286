"""Validation of the rules by which policies and bindings match requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.http.errors import duplicate_value, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import PATH_SEGMENT_RULE, name_problem

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")


def find_resources_errors(resources: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the errors of the field `matchConstraints` or `matchResources`."""
    if resources["matchPolicy"] not in ("Equivalent", "Exact"):
        yield unsupported_value(f"{path}.matchPolicy", resources["matchPolicy"], ("Equivalent", "Exact"))
    for selector in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(resources[selector], f"{path}.{selector}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(field) or ()):
            yield from _find_rule_errors(rule, f"{path}.{field}[{index}]")


def _find_rule_errors(rule: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    yield from _find_name_errors(rule.get("resourceNames") or [], f"{path}.resourceNames")
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        values: list[str] = rule.get(field) or []
        if not values:
            yield required_field(f"{path}.{field}")
        if field != "resources" and len(values) > 1 and "*" in values:
            yield invalid_field(f"{path}.{field}", values, f"if '*' is present, must not specify other {field}")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield unsupported_value(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for field in ("apiVersions", "resources"):
        for index, value in enumerate(rule.get(field) or ()):
            if not value:
                yield required_field(f"{path}.{field}[{index}]")
    yield from _find_wildcard_errors(rule.get("resources") or (), f"{path}.resources")
    if rule.get("scope") not in (None, *_SCOPES):
        yield unsupported_value(f"{path}.scope", rule["scope"], _SCOPES)


def _find_name_errors(names: list[str], path: str) -> Iterator[FieldError]:
    for index, name in enumerate(names):
        if name and (problem := name_problem(name, PATH_SEGMENT_RULE)):
            yield invalid_field(f"{path}[{index}]", name, problem)
        if name in names[:index]:
            yield duplicate_value(f"{path}[{index}]", name)


def _find_wildcard_errors(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    """Yield an error for each resource that a wildcard before it includes."""
    with_all_subresources: set[str] = set()
    of_all_resources: set[str] = set()
    is_last_plain = False
    for index, each in enumerate(resources):
        resource, slash, subresource = each.partition("/")
        if not slash:
            is_last_plain = each != "*" if each else is_last_plain
            continue
        if resource in with_all_subresources:
            yield invalid_field(f"{path}[{index}]", each, f"if '{resource}/*' is present, must not specify {each}")
        if subresource in of_all_resources:
            yield invalid_field(f"{path}[{index}]", each, f"if '*/{subresource}' is present, must not specify {each}")
        if subresource == "*":
            with_all_subresources.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid_field(path, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and is_last_plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid_field(path, list(resources), detail)
