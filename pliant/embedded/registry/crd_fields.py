"""Validation of the fields of a CRD, with the field paths and reasons of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from pliant.embedded.registry.crd_versions import find_version_errors
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.field_errors import invalid_field, required_field
from pliant.embedded.schema.metadata import DNS_1035_LABEL_RULE, DNS_SUBDOMAIN_RULE, name_problem
from pliant.embedded.storage.stored_objects import Object

_SCOPES: Final = ("Cluster", "Namespaced")
_PLAIN_NAMES: Final = ("plural", "singular")
_MIXED_CASE_NAMES: Final = ("kind", "listKind")
_STRATEGIES: Final = ("None", "Webhook")
_PROTECTED_DOMAINS: Final = ("k8s.io", "kubernetes.io")
_APPROVAL: Final = "api-approved.kubernetes.io"


def find_crd_errors(crd: Object, old: Object | None) -> list[FieldError]:
    """Return all errors of a CRD; `old` is the one that it replaces."""
    spec: Object = crd["spec"]
    old_spec = old["spec"] if old is not None else None
    return [
        *(_find_name_errors(crd, spec) if old is None else ()),
        *_find_group_and_scope_errors(spec),
        *find_version_errors(spec, old_spec),
        *_find_required_names(spec.get("names") or {}),
        *_find_names_errors(spec.get("names") or {}, "spec.names"),
        *_find_names_errors((crd.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"),
        *_find_conversion_errors(spec),
        *(_find_immutable_errors(spec, old_spec) if old_spec is not None else ()),
        *_find_stored_version_errors(spec, old),
        *_find_approval_errors(crd, old),
    ]


def _find_name_errors(crd: Object, spec: Object) -> Iterator[FieldError]:
    required = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    for field in ("generateName", "name"):
        name = crd["metadata"].get(field)
        if name and name != required:
            yield invalid_field(f"metadata.{field}", name, 'must be spec.names.plural+"."+spec.group')


def _find_group_and_scope_errors(spec: Object) -> Iterator[FieldError]:
    group, scope = spec.get("group") or "", spec.get("scope") or ""
    if not group:
        yield required_field("spec.group")
    elif problem := name_problem(group, DNS_SUBDOMAIN_RULE):
        yield invalid_field("spec.group", group, problem)
    elif "." not in group:
        yield invalid_field("spec.group", group, "should be a domain with at least one dot")
    yield from _find_choice_errors("spec.scope", scope, _SCOPES)
    if spec.get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in the schema instead"
        yield invalid_field("spec.preserveUnknownFields", True, detail)


def _find_choice_errors(path: str, value: str, choices: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required_field(path)
    elif value not in choices:
        detail = "supported values: " + ", ".join(f'"{each}"' for each in choices)
        yield FieldError.of(path, FieldErrorType.UNSUPPORTED, value, detail)


def _find_required_names(names: Object) -> Iterator[FieldError]:
    for field in (*_PLAIN_NAMES, *_MIXED_CASE_NAMES):
        if not names.get(field):
            yield required_field(f"spec.names.{field}")


def _find_names_errors(names: Object, path: str) -> Iterator[FieldError]:
    for field in (*_PLAIN_NAMES, *_MIXED_CASE_NAMES):
        name = names.get(field) or ""
        problem = name_problem(name.lower() if field in _MIXED_CASE_NAMES else name, DNS_1035_LABEL_RULE)
        if name and problem:
            yield invalid_field(f"{path}.{field}", name, problem)
    for field in ("shortNames", "categories"):
        for index, name in enumerate(names.get(field) or ()):
            if problem := name_problem(name, DNS_1035_LABEL_RULE) or ("" if name else DNS_1035_LABEL_RULE.message):
                yield invalid_field(f"{path}.{field}[{index}]", name, problem)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_field(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")


def _find_conversion_errors(spec: Object) -> Iterator[FieldError]:
    conversion, path = spec.get("conversion"), "spec.conversion"
    if conversion is None:
        return
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    if strategy != "None" and spec.get("preserveUnknownFields"):
        yield invalid_field(f"{path}.strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    yield from _find_choice_errors(f"{path}.strategy", strategy, _STRATEGIES)
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        for field, value in (("webhookClientConfig", config is not None), ("conversionReviewVersions", versions)):
            if value:
                yield FieldError.of(f"{path}.{field}", FieldErrorType.FORBIDDEN, None, detail)
        return
    if config is None:
        yield required_field(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    elif (config.get("url") is None) == (config.get("service") is None):
        yield required_field(f"{path}.webhookClientConfig", "exactly one of url or service is required")
    if not versions:
        yield required_field(f"{path}.conversionReviewVersions")


def _find_immutable_errors(spec: Object, old_spec: Object) -> Iterator[FieldError]:
    names, old_names = spec.get("names") or {}, old_spec["names"]
    for path, new, old in (
        ("spec.scope", spec.get("scope"), old_spec["scope"]),
        ("spec.names.kind", names.get("kind"), old_names["kind"]),
        ("spec.group", spec.get("group"), old_spec["group"]),
        ("spec.names.plural", names.get("plural"), old_names["plural"]),
    ):
        if (new or "") != old:
            yield invalid_field(path, new or "", "field is immutable")


def _find_stored_version_errors(spec: Object, old: Object | None) -> Iterator[FieldError]:
    versions: list[Object] = spec.get("versions") or []
    storage = next((version.get("name") or "" for version in versions if version.get("storage")), None)
    stored = list(((old or {}).get("status") or {}).get("storedVersions") or ())
    stored += [storage] if storage is not None and storage not in stored else []
    path, missing = "status.storedVersions", list(stored)
    if not stored:
        yield invalid_field(path, None, "must have at least one stored version")
        return
    for version in versions:
        name = version.get("name") or ""
        if version.get("storage") and name not in missing:
            yield invalid_field(path, stored, f"must have the storage version {name}")
        if name in missing:
            missing.remove(name)
    for name in missing:
        detail = f"missing from spec.versions; {name} was previously a storage version"
        yield invalid_field(f"{path}[{stored.index(name)}]", name, detail)


def _find_approval_errors(crd: Object, old: Object | None) -> Iterator[FieldError]:
    """Yield the error of a group of Kubernetes itself without a link to its approval."""
    group = crd["spec"].get("group") or ""
    if not any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED_DOMAINS):
        return
    approval = (crd["metadata"].get("annotations") or {}).get(_APPROVAL)
    if old is not None and (old["metadata"].get("annotations") or {}).get(_APPROVAL) == approval:
        return
    path, detail = f"metadata.annotations[{_APPROVAL}]", "protected groups must have an approval annotation"
    if not approval:
        yield required_field(path, detail)
    elif not approval.startswith("unapproved") and not (urlsplit(approval).scheme and urlsplit(approval).netloc):
        yield invalid_field(path, approval, detail)
