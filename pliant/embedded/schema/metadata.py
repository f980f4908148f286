"""What every Kubernetes object carries: its metadata, as a schema and as rules for names and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pliant.embedded.schema.problems import Problem, Reason
from pliant.schemas import definition

_STRING: Final = {"type": "string"}


def as_resource(schema: Mapping[str, Any], *, strict: bool = False) -> dict[str, Any]:
    """A schema whose objects carry apiVersion, kind and metadata; `strict` makes the first two required."""
    stated = schema.get("properties", {})
    fields = {"apiVersion": _STRING, "kind": _STRING, "metadata": definition("ObjectMeta")}
    required = [*schema.get("required", ()), *(("apiVersion", "kind") if strict else ())]
    return {
        **schema,
        "type": "object",
        "properties": {**stated, **fields},
        "required": list(dict.fromkeys(required)),
    }


@dataclass(frozen=True, slots=True)
class NameRule:
    """What the names of one kind may look like."""

    pattern: re.Pattern[str]
    longest: int
    says: str


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MUST = "must consist of lower case alphanumeric characters"
_ENDS = "and must start and end with an alphanumeric character"

SUBDOMAIN: Final = NameRule(
    re.compile(rf"{_LABEL}(\.{_LABEL})*"),
    253,
    f"a lowercase RFC 1123 subdomain {_MUST}, '-' or '.', {_ENDS} (e.g. 'example.com', "
    rf"regex used for validation is '{_LABEL}(\.{_LABEL})*')",
)
DNS_LABEL: Final = NameRule(
    re.compile(_LABEL),
    63,
    f"a lowercase RFC 1123 label {_MUST} or '-', {_ENDS} (e.g. 'my-name',  or '123-abc', "
    f"regex used for validation is '{_LABEL}')",
)
SERVICE_LABEL: Final = NameRule(
    re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?"),
    63,
    f"a DNS-1035 label {_MUST} or '-', start with an alphabetic character, and end with an alphanumeric character "
    "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
)

_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_NAME: Final = re.compile(_NAME)
_LABEL_VALUE: Final = re.compile(rf"({_NAME})?")
_KEY_SAYS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_VALUE_SAYS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '({_NAME})?')"
)
ANNOTATION_BYTES: Final = 262_144


def metadata_problems(metadata: Mapping[str, Any], rule: NameRule = SUBDOMAIN) -> list[Problem]:
    """Names, labels and annotations that Kubernetes would refuse; types are the schema's business."""
    problems: list[Problem] = []
    name = metadata.get("name")
    if name and (says := name_trouble(name, rule)):
        problems.append(Problem.of("metadata.name", Reason.INVALID, name, says))
    problems += _label_problems(metadata.get("labels") or {})
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if says := qualified_name_trouble(key.lower()):
            problems.append(Problem.of("metadata.annotations", Reason.INVALID, key, says))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATION_BYTES:
        limit = f"may not be more than {ANNOTATION_BYTES} bytes"
        problems.append(Problem.of("metadata.annotations", Reason.TOO_LONG, "", limit))
    return problems


@lru_cache(maxsize=4096)
def name_trouble(name: str, rule: NameRule) -> str:
    """What is wrong with a name, or nothing."""
    if len(name) > rule.longest:
        return f"must be no more than {rule.longest} bytes"
    return "" if rule.pattern.fullmatch(name) else rule.says


@lru_cache(maxsize=4096)
def qualified_name_trouble(key: str) -> str:
    """What is wrong with the key of a label or annotation, or nothing."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (says := name_trouble(prefix, SUBDOMAIN)):
        return f"prefix part {says}"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED_NAME.fullmatch(name) else _KEY_SAYS


@lru_cache(maxsize=4096)
def label_value_trouble(value: str) -> str:
    """What is wrong with the value of a label, or nothing."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return "" if _LABEL_VALUE.fullmatch(value) else _VALUE_SAYS


def _label_problems(labels: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in labels.items():
        if says := qualified_name_trouble(key):
            yield Problem.of("metadata.labels", Reason.INVALID, key, says)
        if says := label_value_trouble(value):
            yield Problem.of("metadata.labels", Reason.INVALID, value, says)
