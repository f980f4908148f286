"""One served resource, described: names, verbs, schema, columns, subresources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.catalog.columns import Column
from pliant.embedded.catalog.forms import Form
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
    form: Form | None = None
    """Objects are those of another kind, in this form."""

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """Names the resource over all its versions and forms."""
        return self.form.resource if self.form else f"{self.group}/{self.plural}"

    def shown(self, kept: dict[str, Any]) -> dict[str, Any]:
        """An object of the store as clients of this kind see it."""
        return self.form.shown(kept) if self.form else {**kept, "apiVersion": self.api_version}

    def kept(self, shown: dict[str, Any]) -> dict[str, Any]:
        """An object of this kind as the store keeps it."""
        return self.form.kept(shown) if self.form else shown

    @property
    def qualified(self) -> str:
        """The resource as messages name it: `pods`, `trainingjobs.example.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
