"""Lists as kubectl shows them: meta.k8s.io/v1 Tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pliant.embedded.registry.builtin_columns import DEFAULT_COLUMNS
from pliant.embedded.registry.kinds import Kind
from pliant.errors import BadRequest

INCLUDE_OBJECT_VALUES: Final = ("None", "Metadata", "Object")


def build_table(
    kind: Kind,
    objects: Sequence[Mapping[str, Any]],
    now: datetime,
    *,
    include: str = "Metadata",
    resource_version: str = "",
    include_headers: bool = True,
) -> dict[str, Any]:
    """A Table with one row per object.

    A watch sends each event as a table of one row; `headings` may be left out after the first.
    """
    if (include or "Metadata") not in INCLUDE_OBJECT_VALUES:
        raise BadRequest(400, "BadRequest", f'unrecognized includeObject value: "{include}"')
    columns = kind.columns or DEFAULT_COLUMNS
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": resource_version},
        "columnDefinitions": [column.to_definition() for column in columns] if include_headers else [],
        "rows": [
            {"cells": [column.cell(obj, now) for column in columns], **_row_object(obj, include or "Metadata")}
            for obj in objects
        ],
    }


def _row_object(obj: Mapping[str, Any], include: str) -> dict[str, Any]:
    if include == "None":
        return {}
    if include == "Object":
        return {"object": obj}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    return {"object": partial}
