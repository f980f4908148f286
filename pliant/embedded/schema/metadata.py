"""The schema of object metadata, and the validation of names, labels and annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pliant.embedded.schema.field_errors import FieldError, FieldErrorType
from pliant.schemas import load_kubernetes_schema

_STRING: Final = {"type": "string"}


def with_object_metadata(schema: Mapping[str, Any], *, require_type: bool = False) -> dict[str, Any]:
    """Add apiVersion, kind and metadata to a schema; `require_type` makes the first two required."""
    properties = schema.get("properties", {})
    fields = {"apiVersion": _STRING, "kind": _STRING, "metadata": load_kubernetes_schema("ObjectMeta")}
    required = [*schema.get("required", ()), *(("apiVersion", "kind") if require_type else ())]
    return {
        **schema,
        "type": "object",
        "properties": {**properties, **fields},
        "required": list(dict.fromkeys(required)),
    }


@dataclass(frozen=True, slots=True)
class NameRule:
    pattern: re.Pattern[str]
    max_length: int
    message: str


_LABEL_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CHARACTERS_MESSAGE = "must consist of lower case alphanumeric characters"
_ENDS_MESSAGE = "and must start and end with an alphanumeric character"

DNS_SUBDOMAIN_RULE: Final = NameRule(
    re.compile(rf"{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*"),
    253,
    f"a lowercase RFC 1123 subdomain {_CHARACTERS_MESSAGE}, '-' or '.', {_ENDS_MESSAGE} (e.g. 'example.com', "
    rf"regex used for validation is '{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*')",
)
DNS_LABEL_RULE: Final = NameRule(
    re.compile(_LABEL_PATTERN),
    63,
    f"a lowercase RFC 1123 label {_CHARACTERS_MESSAGE} or '-', {_ENDS_MESSAGE} (e.g. 'my-name',  or '123-abc', "
    f"regex used for validation is '{_LABEL_PATTERN}')",
)
DNS_1035_LABEL_RULE: Final = NameRule(
    re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"),
    63,
    f"a DNS-1035 label {_CHARACTERS_MESSAGE} or '-', start with an alphabetic character, "
    "and end with an alphanumeric character "
    "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
)

PATH_SEGMENT_RULE: Final = NameRule(
    re.compile(r"(?!\.{1,2}$)[^/%]+"), 1000, "may not be '.' or '..', and may not contain '/' or '%'"
)

_NAME_PATTERN = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_NAME: Final = re.compile(_NAME_PATTERN)
_LABEL_VALUE: Final = re.compile(rf"({_NAME_PATTERN})?")
_KEY_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME_PATTERN}')"
)
_QUALIFIED_NAME_MESSAGE = (
    _KEY_MESSAGE.replace("name part", "a valid label key")
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '({_NAME_PATTERN})?')"
)
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
MAX_TOTAL_ANNOTATION_BYTES: Final = 262_144


def validate_metadata(metadata: Mapping[str, Any], rule: NameRule = DNS_SUBDOMAIN_RULE) -> list[FieldError]:
    """Return the errors of names, labels, annotations, owners and finalizers; their types are right."""
    errors: list[FieldError] = []
    prefix = metadata.get("generateName")
    if prefix and (message := name_problem(_with_masked_dash(prefix), rule)):
        errors.append(FieldError.of("metadata.generateName", FieldErrorType.INVALID, prefix, message))
    name = metadata.get("name")
    if name and (message := name_problem(name, rule)):
        errors.append(FieldError.of("metadata.name", FieldErrorType.INVALID, name, message))
    errors += _validate_labels(metadata.get("labels") or {})
    errors += _validate_annotations(metadata.get("annotations") or {})
    errors += _validate_owners(metadata.get("ownerReferences") or [])
    for finalizer in metadata.get("finalizers") or ():
        if message := qualified_name_problem(finalizer):
            errors.append(FieldError.of("metadata.finalizers", FieldErrorType.INVALID, finalizer, message))
    return errors


def _with_masked_dash(prefix: str) -> str:
    """Return a generateName without its last dash, after which the server adds characters."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _validate_annotations(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    for key in annotations:
        if message := qualified_name_problem(key.lower()):
            yield FieldError.of("metadata.annotations", FieldErrorType.INVALID, key, message)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_TOTAL_ANNOTATION_BYTES:
        limit = f"may not be more than {MAX_TOTAL_ANNOTATION_BYTES} bytes"
        yield FieldError.of("metadata.annotations", FieldErrorType.TOO_LONG, "", limit)


def _validate_owners(owners: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    path = "metadata.ownerReferences"
    for owner in owners:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                detail = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield FieldError.of(f"{path}.{field}", FieldErrorType.INVALID, owner.get(field) or "", detail)
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            yield FieldError.of(path, FieldErrorType.INVALID, owner, detail)
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    for other in controllers[1:]:
        detail = 'Only one reference can have Controller set to true. Found "true" in references for '
        yield FieldError.of(path, FieldErrorType.INVALID, list(owners), f"{detail}{controllers[0]} and {other}")


@lru_cache(maxsize=4096)
def name_problem(name: str, rule: NameRule) -> str:
    """Return what is wrong with a name; empty if it is valid."""
    if len(name) > rule.max_length:
        return f"must be no more than {rule.max_length} bytes"
    return "" if rule.pattern.fullmatch(name) else rule.message


@lru_cache(maxsize=4096)
def qualified_name_problem(key: str) -> str:
    """Return what is wrong with the key of a label or annotation; empty if it is valid."""
    if key.count("/") > 1:
        return _QUALIFIED_NAME_MESSAGE
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (message := name_problem(prefix, DNS_SUBDOMAIN_RULE)):
        return f"prefix part {message}"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED_NAME.fullmatch(name) else _KEY_MESSAGE


@lru_cache(maxsize=4096)
def config_key_problem(key: str) -> str:
    """Return what is wrong with a key of a ConfigMap or Secret; empty if it is valid."""
    if len(key) > DNS_SUBDOMAIN_RULE.max_length:
        return f"must be no more than {DNS_SUBDOMAIN_RULE.max_length} bytes"
    if not _CONFIG_KEY.fullmatch(key):
        return _CONFIG_KEY_MESSAGE
    if key in (".", ".."):
        return f"must not be '{key}'"
    return "must not start with '..'" if key.startswith("..") else ""


@lru_cache(maxsize=4096)
def label_value_problem(value: str) -> str:
    """Return what is wrong with the value of a label; empty if it is valid."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if _LABEL_VALUE.fullmatch(value) else _LABEL_VALUE_MESSAGE


def _validate_labels(labels: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in labels.items():
        if message := qualified_name_problem(key):
            yield FieldError.of("metadata.labels", FieldErrorType.INVALID, key, message)
        if message := label_value_problem(value):
            yield FieldError.of("metadata.labels", FieldErrorType.INVALID, value, message)
