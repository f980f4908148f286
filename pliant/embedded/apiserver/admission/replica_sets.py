"""Defaults and validation of Deployments, ReplicaSets and ControllerRevisions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pliant.embedded.apiserver.admission.disruption_budgets import INVALID_PERCENT_MESSAGE
from pliant.embedded.apiserver.admission.pod_templates import (
    SELECTOR_MISMATCH,
    immutable_field_errors,
    set_template_defaults,
    validate_selected_labels,
    validate_template,
)
from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

DEPLOYMENTS_RESOURCE_KEY = "apps/deployments"
CONTROLLER_REVISIONS_RESOURCE_KEY = "apps/controllerrevisions"
REPLICA_SETS_RESOURCE_KEY = "apps/replicasets"
_DEFAULT_ROLLING_UPDATE = {"maxUnavailable": "25%", "maxSurge": "25%"}
_STATUS_COUNTS = ("fullyLabeledReplicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def set_deployment_defaults(deployment: Object, old: Object | None) -> None:
    strategy = deployment["spec"]["strategy"]
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_DEFAULT_ROLLING_UPDATE, **(strategy.get("rollingUpdate") or {})}
    set_template_defaults(deployment["spec"]["template"])


def set_replica_set_defaults(replica_set: Object, old: Object | None) -> None:
    set_template_defaults(replica_set["spec"]["template"])


def validate_deployment(deployment: Object, old: Object | None) -> list[FieldError]:
    spec = deployment["spec"]
    if old is not None and spec == old["spec"]:
        return _validate_status(deployment) + _validate_collisions(deployment, old)
    errors = [*_validate_replicas(spec), *_validate_strategy(spec["strategy"])]
    deadline, ready_seconds = spec["progressDeadlineSeconds"], spec.get("minReadySeconds", 0)
    if deadline <= ready_seconds:
        errors.append(invalid_field("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors + ([] if old is None else immutable_field_errors(spec, old["spec"], "selector"))


def validate_replica_set(replica_set: Object, old: Object | None) -> list[FieldError]:
    spec = replica_set["spec"]
    if old is not None and spec == old["spec"]:
        return _validate_status(replica_set)
    return [*_validate_replicas(spec), *([] if old is None else immutable_field_errors(spec, old["spec"], "selector"))]


def validate_controller_revision(revision: Object, old: Object | None) -> list[FieldError]:
    errors = []
    if revision["revision"] < 0:
        errors.append(invalid_field("revision", revision["revision"], "must be greater than or equal to 0"))
    if old is None and not isinstance(revision.get("data"), dict):
        errors.append(required_field("data", "data must be a valid JSON object"))
    if old is not None and revision.get("data") != old.get("data"):
        errors.append(invalid_field("data", revision.get("data"), "field is immutable"))
    return errors


def _validate_replicas(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of a selector and of the template, which is validated only if the selector is valid."""
    selector, template = spec.get("selector"), spec["template"]
    if selector is None:
        yield required_field("spec.selector")
        labels = template["metadata"].get("labels")
        yield invalid_field("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
    else:
        selector_errors = list(validate_label_selector(selector, "spec.selector"))
        yield from selector_errors
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield invalid_field("spec.selector", selector, "empty selector is invalid for deployment")
        if selector_errors:
            yield invalid_field("spec.selector", selector, "invalid label selector")
            return
        yield from validate_selected_labels(selector, template)
    yield from validate_template(template)
    pod_spec = template["spec"]
    if pod_spec["restartPolicy"] != "Always":
        yield unsupported_value("spec.template.spec.restartPolicy", pod_spec["restartPolicy"], ("Always",))
    if pod_spec.get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden_field("spec.template.spec.activeDeadlineSeconds", detail)


def without_errors_of_unselected_template(obj: Object, errors: list[FieldError]) -> list[FieldError]:
    """Return errors without those of the template if the selector is invalid: the template is not validated then."""
    selector = obj["spec"].get("selector")
    if selector is None or not any(validate_label_selector(selector, "spec.selector")):
        return errors
    return [error for error in errors if not error.field.startswith("spec.template.")]


def _validate_strategy(strategy: Object) -> Iterator[FieldError]:
    if strategy["type"] == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden_field("spec.strategy.rollingUpdate", detail)
        return
    if strategy["type"] != "RollingUpdate":
        yield unsupported_value("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
        return
    rolling_update, path = strategy["rollingUpdate"], "spec.strategy.rollingUpdate"
    for field in ("maxUnavailable", "maxSurge"):
        value = rolling_update[field]
        if isinstance(value, int) and value < 0:
            yield invalid_field(f"{path}.{field}", value, "must be greater than or equal to 0")
        elif isinstance(value, str) and not _is_percent(value):
            yield invalid_field(f"{path}.{field}", value, INVALID_PERCENT_MESSAGE)
    unavailable = rolling_update["maxUnavailable"]
    if _number(unavailable) == 0 and _number(rolling_update["maxSurge"]) == 0:
        yield invalid_field(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    if isinstance(unavailable, str) and _is_percent(unavailable) and _number(unavailable) > 100:
        yield invalid_field(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%")


def _is_percent(value: str) -> bool:
    return value.endswith("%") and value.removesuffix("%").isdecimal() and value.isascii()


def _number(value: int | str) -> int:
    """Return the number of an integer, a percentage or a text; 0 if the text is no number."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%") if _is_percent(value) else value
    return int(digits) if re.fullmatch("[+-]?[0-9]+", digits) else 0


def _validate_collisions(deployment: Object, old: Object) -> list[FieldError]:
    count, before = ((each.get("status") or {}).get("collisionCount") for each in (deployment, old))
    if before is not None and (count is None or count < before):
        return [invalid_field("status.collisionCount", count or 0, "cannot be decremented")]
    return []


def _validate_status(obj: Object) -> list[FieldError]:
    status = obj.get("status") or {}
    replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    negative = "must be greater than or equal to 0"
    errors = [
        invalid_field(f"status.{field}", value, negative)
        for field, value in status.items()
        if isinstance(value, int) and value < 0
    ]
    errors += [
        invalid_field(f"status.{field}", status[field], "cannot be greater than status.replicas")
        for field in _STATUS_COUNTS
        if status.get(field, 0) > replicas
    ]
    if status.get("availableReplicas", 0) > ready:
        available = status["availableReplicas"]
        errors.append(invalid_field("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return errors
