"""One served resource, described: names, verbs, schema, columns, subresources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pliant.embedded.catalog.columns import Column
from pliant.embedded.schema import Schema

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows; paths begin with a dot."""

    spec: str
    status: str
    selector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One served resource in one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    schema: Schema | None = None
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
    has_status: bool = False
    has_generation: bool = False
    selectable_fields: tuple[str, ...] = ()
    """Fields a selector may name, beside metadata.name and metadata.namespace."""
    is_custom: bool = False
    """Added by a CRD: strategic merge patches do not apply to it."""
    is_storage: bool = True
    """Objects are kept in this version; others of the same key only rename apiVersion."""

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """Names the resource over all its versions."""
        return f"{self.group}/{self.plural}"

    @property
    def qualified(self) -> str:
        """The resource as messages name it: `pods`, `trainingjobs.example.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
