"""Finds the parameters of a binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.apiserver.admission.plugins import AdmissionRequest
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.stored_objects import Object, ObjectKey


class ParamsError(Exception):
    """The parameters of a binding cannot be determined."""


class ParamKindError(Exception):
    """The kind of the parameters of a policy is not served."""


def find_params(
    policy_spec: Mapping[str, Any],
    param_ref: Mapping[str, Any] | None,
    request: AdmissionRequest,
    registry: KindRegistry,
) -> list[Object | None]:
    """Return the parameters with which a policy is evaluated, each on its own; raise ParamsError or ParamKindError."""
    param_kind = policy_spec.get("paramKind")
    if not param_kind or not param_ref:
        return [None]
    kind = registry.find_kind(param_kind["apiVersion"], param_kind["kind"])
    if kind is None:
        name = f"{param_kind['apiVersion']}, Kind={param_kind['kind']}"
        raise ParamKindError(f"failed to find resource referenced by paramKind: '{name}'")
    namespace = param_ref.get("namespace") or ""
    if namespace and not kind.namespaced:
        raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if kind.namespaced and not namespace:
        namespace = request.namespace
        if not namespace:
            raise ParamsError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    if param_ref.get("name"):
        record = request.transaction.get(ObjectKey(kind.resource_key, namespace, param_ref["name"]))
        found = [record] if record is not None else []
    else:
        found = list(request.transaction.list_objects(kind.resource_key, namespace))
    params: list[Object | None] = [kind.to_served(record.decode()) for record in found]
    if selector := param_ref.get("selector"):
        params = [each for each in params if each and label_selector_matches(selector, _labels(each))]
    if not params and param_ref.get("parameterNotFoundAction") == "Deny":
        raise ParamsError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
