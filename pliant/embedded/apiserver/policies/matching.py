"""Finds out whether a policy or a binding applies to a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.apiserver.admission.plugins import AdmissionRequest, Operation
from pliant.embedded.apiserver.handlers.object_lifecycle import NAMESPACES_RESOURCE_KEY
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.stored_objects import Object, ObjectKey

Resources = Mapping[str, Any]
"""A MatchResources."""


def find_matching_kind(resources: Resources, request: AdmissionRequest, registry: KindRegistry) -> Kind | None:
    """Return the kind as which a request matches, which may be another version; None if it does not match."""
    if not _matches_namespace(resources.get("namespaceSelector") or {}, request):
        return None
    if not _matches_object(resources.get("objectSelector") or {}, request):
        return None
    kinds = [request.kind]
    if resources.get("matchPolicy") != "Exact":
        kinds += [each for each in registry.kinds() if _is_equivalent(each, request.kind)]
    excluded = resources.get("excludeResourceRules") or ()
    if any(_matches_rule(rule, request, kind) for kind in kinds for rule in excluded):
        return None
    rules = resources.get("resourceRules") or ()
    if not rules:
        return request.kind
    return next((kind for kind in kinds if any(_matches_rule(rule, request, kind) for rule in rules)), None)


def _is_equivalent(kind: Kind, other: Kind) -> bool:
    return kind is not other and kind.resource_key == other.resource_key


def _matches_rule(rule: Mapping[str, Any], request: AdmissionRequest, kind: Kind) -> bool:
    names = rule.get("resourceNames")
    return (
        _contains(rule.get("operations") or (), request.operation.value)
        and _contains(rule.get("apiGroups") or (), kind.group)
        and _contains(rule.get("apiVersions") or (), kind.version)
        and any(_matches_resource(each, kind.plural, request.subresource) for each in rule.get("resources") or ())
        and _matches_scope(rule.get("scope") or "*", request)
        and (not names or request.requested_name in names)
    )


def _contains(allowed: Iterable[str], value: str) -> bool:
    return any(each in ("*", value) for each in allowed)


def _matches_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, part = pattern.partition("/")
    return resource in ("*", plural) and part in (("*", subresource) if "/" in pattern else (subresource,))


def _matches_scope(scope: str, request: AdmissionRequest) -> bool:
    is_namespaced = bool(request.namespace) and request.kind.resource_key != NAMESPACES_RESOURCE_KEY
    return scope == "*" or (scope == "Namespaced") is is_namespaced


def _matches_namespace(selector: Object, request: AdmissionRequest) -> bool:
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    if request.kind.resource_key == NAMESPACES_RESOURCE_KEY:
        obj = request.old if request.operation is Operation.DELETE else request.obj
        return label_selector_matches(selector, _labels(obj))
    if not request.namespace:
        return True
    return label_selector_matches(selector, _labels(find_namespace(request)))


def _matches_object(selector: Object, request: AdmissionRequest) -> bool:
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return True
    objects = [each for each in (request.obj, request.old) if each is not None and "metadata" in each]
    return any(label_selector_matches(selector, _labels(each)) for each in objects)


def _labels(obj: Object | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def find_namespace(request: AdmissionRequest) -> Object | None:
    """Return the namespace of a request; None for objects without one."""
    if not request.namespace or request.kind.resource_key == NAMESPACES_RESOURCE_KEY:
        return None
    record = request.transaction.get(ObjectKey(NAMESPACES_RESOURCE_KEY, "", request.namespace))
    return record.decode() if record is not None else None
