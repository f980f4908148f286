"""One served resource, described: names, verbs, schema, columns, subresources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.registry.conversions import Conversion
from pliant.embedded.registry.table_columns import TableColumn
from pliant.embedded.schema import Schema

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFieldPaths:
    """Where a kind keeps what its scale subresource shows; paths begin with a dot."""

    spec_replicas: str
    status_replicas: str
    label_selector: str | None = None


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
    columns: tuple[TableColumn, ...] = ()
    scale: ScaleFieldPaths | None = None
    has_status: bool = False
    has_generation: bool = False
    selectable_fields: tuple[str, ...] = ()
    """Fields a selector may name, beside metadata.name and metadata.namespace."""
    is_custom: bool = False
    """Added by a CRD: strategic merge patches do not apply to it."""
    is_storage_version: bool = True
    """Objects are kept in this version; others of the same key only rename apiVersion."""
    form: Conversion | None = None
    """Objects are those of another kind, in this form."""

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource_key(self) -> str:
        """Names the resource over all its versions and forms."""
        return self.form.stored_resource if self.form else f"{self.group}/{self.plural}"

    def to_served(self, stored: dict[str, Any]) -> dict[str, Any]:
        """An object of the store as clients of this kind see it."""
        return self.form.to_served(stored) if self.form else {**stored, "apiVersion": self.api_version}

    def to_stored(self, served: dict[str, Any]) -> dict[str, Any]:
        """An object of this kind as the store keeps it."""
        return self.form.to_stored(served) if self.form else served

    @property
    def qualified_name(self) -> str:
        """The resource as messages name it: `pods`, `trainingjobs.example.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
