"""Kinds that are served under a second group, with other names for the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How objects that are kept as one kind look as another: some fields have other names."""

    api_version: str
    kept_as: str
    """The apiVersion of what is kept."""
    resource: str
    """The key of what is kept."""
    names: Mapping[str, str]
    """By the name shown, the name kept."""

    def shown(self, kept: Object) -> Object:
        """An object as clients of this form see it."""
        back = {ours: theirs for theirs, ours in self.names.items()}
        renamed = {back.get(field, field): value for field, value in kept.items()}
        return {**renamed, "apiVersion": self.api_version}

    def kept(self, shown: Object) -> Object:
        """An object as it is kept."""
        renamed = {self.names.get(field, field): value for field, value in shown.items()}
        return {**renamed, "apiVersion": self.kept_as}

    def field(self, shown: str) -> str:
        """The path kept of a field that a selector names."""
        first, dot, rest = shown.partition(".")
        return f"{self.names.get(first, first)}{dot}{rest}"


EVENTS: Final = Form(
    api_version="events.k8s.io/v1",
    kept_as="v1",
    resource="/events",
    names={
        "regarding": "involvedObject",
        "note": "message",
        "reportingController": "reportingComponent",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
    },
)
"""Events of events.k8s.io are those of the core group."""


def renamed_schema(openapi: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """The schema of a form, made from that of the kind it stands for."""
    back = {ours: theirs for theirs, ours in form.names.items()}
    properties = {back.get(field, field): schema for field, schema in openapi["properties"].items()}
    required = [back.get(field, field) for field in openapi.get("required", ())]
    return {**openapi, "properties": properties, "required": required}
