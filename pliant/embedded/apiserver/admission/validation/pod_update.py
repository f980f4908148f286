"""Validation of what an update of a pod changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

FORBIDDEN_POD_UPDATE_MESSAGE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_GROUPS: Final = ("containers", "initContainers")
_MAX_SECONDS: Final = 2**31 - 1


def validate_pod_update(spec: Object, old: Object) -> list[FieldError]:
    """Return the errors of fields that may not change, or not in this way."""
    errors: list[FieldError] = []
    for group in _GROUPS:
        containers = spec.get(group) or []
        if len(containers) != len(old.get(group) or []):
            return [*errors, forbidden_field(f"spec.{group}", "pod updates may not add or remove containers")]
        errors += _validate_images(containers, f"spec.{group}")
    deadline_errors, is_final = _validate_deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    errors += deadline_errors
    if is_final:
        return errors
    if not _keeps_tolerations(spec, old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden_field("spec.tolerations", detail))
    errors += _validate_gates(spec, old)
    immutable = _immutable_part(spec, old)
    if old.get("schedulingGates") and immutable != old:
        errors += _validate_gated_update(immutable, old)
        immutable = _with_old_placement(immutable, old)
    if immutable != old:
        errors.append(forbidden_field("spec", FORBIDDEN_POD_UPDATE_MESSAGE))
    return errors


def _validate_gates(spec: Object, old: Object) -> Iterator[FieldError]:
    before = {each.get("name") for each in old.get("schedulingGates") or ()}
    last = {each.get("name"): index for index, each in enumerate(spec.get("schedulingGates") or ())}
    for name, index in last.items():
        if name not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", detail)


def _validate_gated_update(spec: Object, old: Object) -> Iterator[FieldError]:
    """Require that the constraints of the nodes of a pod with gates become only narrower."""
    selector = spec.get("nodeSelector") or {}
    if not (old.get("nodeSelector") or {}).items() <= selector.items():
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_field("spec.nodeSelector", selector, detail)
    terms, old_terms = _required_terms(spec), _required_terms(old)
    if not old_terms:
        return
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if len(terms) != len(old_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_field(path, terms, detail)
        return
    for index, (term, before) in enumerate(zip(terms, old_terms, strict=True)):
        if not _only_adds(term, before):
            yield invalid_field(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")


def _required_terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Object] = required.get("nodeSelectorTerms") or []
    return terms


def _only_adds(term: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all((term.get(field) or [])[: len(old.get(field) or [])] == (old.get(field) or []) for field in fields)


def _with_old_placement(spec: Object, old: Object) -> Object:
    """Return a spec with the node selector and the node affinity of the old one."""
    result = _with_old_fields(spec, old, "nodeSelector")
    affinity = _with_old_fields(spec.get("affinity") or {}, old.get("affinity") or {}, "nodeAffinity")
    result.pop("affinity", None)
    return {**result, "affinity": affinity} if affinity or "affinity" in old else result


def _validate_images(containers: list[Object], path: str) -> Iterator[FieldError]:
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if not image:
            yield required_field(f"{path}[{index}].image")
        if image != image.strip():
            yield invalid_field(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")


def _validate_deadline(new: int | None, old: int | None) -> tuple[list[FieldError], bool]:
    """Return the errors of the deadline, and whether the API server looks no further."""
    path = "spec.activeDeadlineSeconds"
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return ([] if old is None else [invalid_field(path, None, detail)]), False
    if not 0 <= new <= _MAX_SECONDS:
        return [invalid_field(path, new, f"must be between 0 and {_MAX_SECONDS}, inclusive")], True
    if old is not None and old < new:
        return [invalid_field(path, new, "must be less than or equal to previous value")], True
    return [], False


def _keeps_tolerations(spec: Object, old: Object) -> bool:
    """Return whether all old tolerations are still there; only the seconds of NoExecute ones may change."""
    tolerations = spec.get("tolerations") or []
    return all(
        any(each == other or _without_seconds(each) == _without_seconds(other) for other in tolerations)
        for each in old.get("tolerations") or ()
    )


def _without_seconds(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _immutable_part(spec: Object, old: Object) -> Object:
    """Return the new spec with the old values of all fields that may change."""
    result = {**spec}
    for group in _GROUPS:
        if group in spec:
            result[group] = [
                _with_old_fields(new, before, "image") for new, before in zip(spec[group], old[group], strict=True)
            ]
    fields = ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        fields.append("terminationGracePeriodSeconds")
    return _with_old_fields(result, old, *fields)


def _with_old_fields(new: Object, old: Object, *fields: str) -> Object:
    others = {name: value for name, value in new.items() if name not in fields}
    return {**others, **{name: old[name] for name in fields if name in old}}
