"""The description of a served kind: names, verbs, schema, columns and subresources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pliant.embedded.registry.conversions import KindConversion
from pliant.embedded.registry.tables import TableColumn
from pliant.embedded.schema import Schema

STANDARD_RESOURCE_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_CREATED_ON_UPDATE: Final = frozenset(
    {
        *("endpoints", "events", "limitranges", "services", "leases.coordination.k8s.io", "events.events.k8s.io"),
        *(f"{plural}.{_RBAC_GROUP}" for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")),
    }
)
_UPDATED_BY_VERSION: Final = frozenset(
    {
        *(
            "leases.coordination.k8s.io",
            "poddisruptionbudgets.policy",
            "customresourcedefinitions.apiextensions.k8s.io",
        ),
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFieldPaths:
    """Paths of the fields that the scale subresource maps; they begin with a dot."""

    spec_replicas: str
    status_replicas: str
    label_selector: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = STANDARD_RESOURCE_VERBS
    subresources: tuple[str, ...] = ()
    schema: Schema | None = None
    columns: tuple[TableColumn, ...] = ()
    scale: ScaleFieldPaths | None = None
    has_status: bool = False
    has_generation: bool = False
    counts_annotations: bool = False
    """A change of its annotations, except of the one that its controller writes, increments the generation, too."""
    selectable_fields: tuple[str, ...] = ()
    """Fields that field selectors may use in addition to metadata.name and metadata.namespace."""
    is_custom: bool = False
    """Defined by a CRD: strategic merge patch is not supported."""
    is_storage_version: bool = True
    """Objects are stored in this version; other versions differ only in apiVersion."""
    conversion: KindConversion | None = None
    """Set if objects of this kind are stored as another kind."""
    unsupported_message: str = ""
    """Set if no object of this kind can exist: why, and what to use instead. Writes are refused with it."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource_key(self) -> str:
        """Return the storage key of the resource, the same for all versions and conversions."""
        return self.conversion.stored_resource if self.conversion else f"{self.group}/{self.plural}"

    @property
    def creates_on_update(self) -> bool:
        """Return whether an update creates an object that does not exist."""
        return not self.is_custom and self.qualified_name in _CREATED_ON_UPDATE

    @property
    def allows_unconditional_update(self) -> bool:
        """Return whether an update need not name the resourceVersion that it replaces."""
        return not (self.is_custom or self.qualified_name in _UPDATED_BY_VERSION)

    def to_served(self, stored: dict[str, Any]) -> dict[str, Any]:
        return self.conversion.to_served(stored) if self.conversion else {**stored, "apiVersion": self.api_version}

    def to_stored(self, served: dict[str, Any]) -> dict[str, Any]:
        return self.conversion.to_stored(served) if self.conversion else served

    @property
    def qualified_name(self) -> str:
        """Return the resource as messages name it: `pods` or `trainingjobs.example.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_group(self) -> str:
        """Return the group of the stored kind, which errors of invalid objects name."""
        return self.resource_key.partition("/")[0] if self.conversion else self.group
