"""Defaults and validation of batch/v1 Jobs; `job_policies` validates their failure and success policies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.apiserver.admission.job_policies import validate_policies
from pliant.embedded.apiserver.admission.job_status import validate_job_status
from pliant.embedded.apiserver.admission.pod_templates import (
    SELECTOR_MISMATCH,
    immutable_field_errors,
    set_template_defaults,
    validate_selected_labels,
    validate_template,
)
from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.admission.validation.names import validate_name
from pliant.embedded.apiserver.http.errors import invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError, deep_copy
from pliant.embedded.schema.field_errors import FieldErrorType
from pliant.embedded.schema.metadata import DNS_LABEL_RULE, name_problem, validate_metadata
from pliant.embedded.storage.stored_objects import Object

JOBS_RESOURCE_KEY = "batch/jobs"
CONTROLLER_UID_LABEL = "batch.kubernetes.io/controller-uid"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_UID_LABELS = ("controller-uid", CONTROLLER_UID_LABEL)
_NAME_LABELS = ("job-name", JOB_NAME_LABEL)
_DEFAULT_BACKOFF_LIMIT = 6
_UNLIMITED = 2**31 - 1
_MAX_INDEXED = 100_000
_MANY_COMPLETIONS = 100_000
_MAX_OF_MANY = 10_000
_MAX_MANAGED_BY_BYTES = 63
_URL_PATH = re.compile(r"[A-Za-z0-9/._~%!$&'()*+,;=:-]+")
_POD_REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
_IMMUTABLE_FIELDS = (
    *("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"),
)
_SCHEDULING_FIELDS = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


def set_job_defaults(job: Object, old: Object | None) -> None:
    """Set defaults; a new job without its own selector gets one for its UID, and the labels that it matches."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    per_index = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", _UNLIMITED if per_index else _DEFAULT_BACKOFF_LIMIT)
    has_failure_policy = spec.get("podFailurePolicy") is not None
    spec.setdefault("podReplacementPolicy", "Failed" if has_failure_policy else "TerminatingOrFailed")
    set_template_defaults(spec["template"])
    if old is None and not spec["manualSelector"]:
        labels = spec["template"]["metadata"].setdefault("labels", {})
        for label in _NAME_LABELS:
            labels.setdefault(label, metadata["name"])
        for label in _UID_LABELS:
            labels.setdefault(label, metadata["uid"])
        selector = spec.setdefault("selector", {})
        selector.setdefault("matchLabels", {}).setdefault(CONTROLLER_UID_LABEL, metadata["uid"])
    if not metadata.get("labels") and (labels := spec["template"]["metadata"].get("labels")):
        metadata["labels"] = dict(labels)


def validate_job(job: Object, old: Object | None) -> list[FieldError]:
    spec = job["spec"]
    is_same_object = old is not None and job["metadata"]["uid"] == old["metadata"]["uid"]
    if old is not None and is_same_object and spec == old["spec"]:
        return list(validate_job_status(job, old))
    errors = [*_validate_generated_selector(job, old), *_validate_spec(spec), *_validate_hostnames(job)]
    labels = spec["template"]["metadata"].get("labels")
    has_own_labels = bool((labels or {}).keys() - {*_NAME_LABELS, *_UID_LABELS})
    # The labels of the template are those of the job by default; generated ones are copied only after the validation.
    if (old is not None or has_own_labels) and labels and labels == job["metadata"].get("labels"):
        errors += validate_metadata({"labels": labels})
    if old is not None:
        errors += _validate_update(job, old)
    return errors


def _validate_spec(spec: Object) -> Iterator[FieldError]:
    yield from _validate_managed_by(spec.get("managedBy"))
    yield from _validate_completion_mode(spec)
    yield from validate_policies(spec)
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else _POD_REPLACEMENT_POLICIES
    if spec["podReplacementPolicy"] not in allowed:
        yield unsupported_value("spec.podReplacementPolicy", spec["podReplacementPolicy"], allowed)
    yield from validate_template(spec["template"])
    policy, path = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    if policy == "Always":
        yield required_field(path, 'valid values: "OnFailure", "Never"')
    elif spec.get("podFailurePolicy") is not None and policy == "OnFailure":
        yield invalid_field(path, policy, 'only "Never" is supported when podFailurePolicy is specified')
    yield from _validate_selector(spec)


def _validate_selector(spec: Object) -> Iterator[FieldError]:
    selector, template = spec.get("selector"), spec["template"]
    if selector is None:
        yield required_field("spec.selector")
        yield invalid_field("spec.template.metadata.labels", template["metadata"].get("labels"), SELECTOR_MISMATCH)
    elif errors := list(validate_label_selector(selector, "spec.selector")):
        yield from errors
    else:
        yield from validate_selected_labels(selector, template)


def _validate_generated_selector(job: Object, old: Object | None) -> Iterator[FieldError]:
    """Require the generated labels in the template, unless the user manages the selector.

    Labels with a prefix are required only if the job has them already: older jobs have none.
    """
    spec, metadata = job["spec"], job["metadata"]
    if spec["manualSelector"] or spec.get("selector") is None:
        return
    labels = spec["template"]["metadata"].get("labels") or {}
    expected = {**dict.fromkeys(_UID_LABELS, metadata["uid"]), **dict.fromkeys(_NAME_LABELS, metadata["name"])}
    old_labels = {} if old is None else old["spec"]["template"]["metadata"].get("labels") or {}
    if old is not None and not {CONTROLLER_UID_LABEL, JOB_NAME_LABEL} <= old_labels.keys():
        expected = {label: value for label, value in expected.items() if "/" not in label}
    for label, value in expected.items():
        path, detail = f"spec.template.metadata.labels[{label}]", f"must be '{value}'"
        if label not in labels:
            yield required_field(path, detail)
        elif labels[label] != value:
            yield invalid_field(path, labels, detail)
    is_valid = not any(validate_label_selector(spec["selector"], "spec.selector"))
    if is_valid and not label_selector_matches(spec["selector"], expected):
        yield invalid_field("spec.selector", spec["selector"], "`selector` not auto-generated")


def _validate_managed_by(managed_by: Any) -> Iterator[FieldError]:
    if managed_by is None:
        return
    path, (domain, _, name) = "spec.managedBy", managed_by.partition("/")
    if not managed_by:
        yield required_field(path)
    elif not domain or not name:
        yield invalid_field(path, managed_by, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from validate_name(path, domain)
        if not _URL_PATH.fullmatch(name):
            yield invalid_field(path, name, f"must match {_URL_PATH.pattern}")
    if len(managed_by.encode()) > _MAX_MANAGED_BY_BYTES:
        limit = f"may not be more than {_MAX_MANAGED_BY_BYTES} bytes"
        yield FieldError.of(path, FieldErrorType.TOO_LONG, "", limit)


def _validate_completion_mode(spec: Object) -> Iterator[FieldError]:
    per_index, max_failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if max_failed is not None and per_index is None:
        yield required_field("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec["completionMode"] == "NonIndexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                yield invalid_field(f"spec.{field}", spec[field], "requires indexed completion mode")
        return
    if spec["completionMode"] == "Indexed":
        yield from _validate_indexed_limits(spec)


def _validate_indexed_limits(spec: Object) -> Iterator[FieldError]:
    completions, max_failed, parallelism = spec.get("completions"), spec.get("maxFailedIndexes"), spec["parallelism"]
    if completions is None:
        yield required_field("spec.completions", "when completion mode is Indexed")
    elif max_failed is not None and max_failed > completions:
        yield invalid_field("spec.maxFailedIndexes", max_failed, "must be less than or equal to completions")
    limits = [("parallelism", parallelism, _MAX_INDEXED), ("maxFailedIndexes", max_failed, _MAX_INDEXED)]
    if (completions or 0) > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        if max_failed is None:
            detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
            yield required_field("spec.maxFailedIndexes", detail)
        limits += [("parallelism", parallelism, _MAX_OF_MANY), ("maxFailedIndexes", max_failed, _MAX_OF_MANY)]
    for field, value, limit in limits:
        if value is not None and value > limit:
            yield invalid_field(f"spec.{field}", value, f"must be less than or equal to {limit}")


def _validate_hostnames(job: Object) -> Iterator[FieldError]:
    """Require that the name of an indexed job, with an index, can be the hostname of a pod."""
    completions = job["spec"].get("completions") or 0
    if job["spec"]["completionMode"] != "Indexed" or not completions:
        return
    hostname = f"{job['metadata']['name']}-{completions - 1}"
    if name_problem(hostname, DNS_LABEL_RULE):
        detail = f"will not able to create pod with invalid DNS label: {hostname}"
        yield invalid_field("metadata.name", job["metadata"]["name"], detail)


def _validate_update(job: Object, old: Object) -> list[FieldError]:
    spec, old_spec = job["spec"], old["spec"]
    errors = immutable_field_errors(spec, old_spec, *_IMMUTABLE_FIELDS)
    completions = spec.get("completions")
    # An indexed job may be resized as long as completions and parallelism are equal.
    is_resized = spec["completionMode"] == "Indexed" and completions in (None, spec["parallelism"])
    if not is_resized:
        errors += immutable_field_errors(spec, old_spec, "completions")
    errors += _validate_template_update(spec["template"], old)
    return errors


def _validate_template_update(template: Object, old: Object) -> Iterator[FieldError]:
    """Keep the template, except for scheduling, metadata and resources while the job is suspended and has no pods."""
    old_template = old["spec"]["template"]
    if not _is_stopped(old):
        if template != old_template:
            yield invalid_field("spec.template", template, "field is immutable")
        return
    if _without_mutable_fields(template["spec"]) != _without_mutable_fields(old_template["spec"]):
        yield invalid_field("spec.template.spec", template["spec"], "field is immutable")


def _is_stopped(job: Object) -> bool:
    status = job.get("status") or {}
    has_stopped = not status.get("startTime") or "Suspended" in _true_conditions(status)
    return bool(job["spec"].get("suspend") and has_stopped and not status.get("active"))


def _without_mutable_fields(pod_spec: Object) -> Object:
    """Return a pod spec without the fields that an update of a stopped job may change."""
    result: Object = deep_copy(pod_spec)
    for field in _SCHEDULING_FIELDS:
        result.pop(field, None)
    affinity = dict(pod_spec.get("affinity") or {})
    affinity.pop("nodeAffinity", None)
    if affinity:
        result["affinity"] = affinity
    for group in ("initContainers", "containers"):
        for container in result.get(group) or ():
            container.pop("resources", None)
    return result


def _true_conditions(status: Object) -> set[str]:
    return {each.get("type", "") for each in status.get("conditions") or () if each.get("status") == "True"}
