"""The kinds that are served: built-in kinds and kinds of CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.embedded.registry.builtin_kinds import builtin_kinds
from pliant.embedded.registry.crds import kinds_of_crd
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import deep_copy
from pliant.errors import InvalidSpec


class KindRegistry:
    """The served kinds; `version` is incremented with every change, so that responses can be cached."""

    def __init__(self, builtin: Iterable[Kind] = ()) -> None:
        self.version = 0
        self._builtin = tuple(builtin)
        self._custom: dict[str, tuple[Kind, ...]] = {}
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self._builtin}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in self._builtin}

    @classmethod
    def with_builtin_kinds(cls) -> KindRegistry:
        return cls(builtin_kinds())

    def find_resource(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        return self._by_kind.get((api_version, kind))

    def is_builtin_group(self, group: str) -> bool:
        return any(kind.group == group for kind in self._builtin)

    def kinds(self) -> Iterable[Kind]:
        return self._by_path.values()

    def register_crd(self, crd: Mapping[str, Any]) -> None:
        """Serve the kinds of a CRD; raise InvalidSpec, and change nothing, if the CRD is invalid."""
        kinds = kinds_of_crd(self._validated_copy(crd))
        self._custom[crd["metadata"]["name"]] = kinds
        self._rebuild()

    def unregister_crd(self, name: str) -> None:
        if self._custom.pop(name, None) is not None:
            self._rebuild()

    def _validated_copy(self, crd: Mapping[str, Any]) -> dict[str, Any]:
        copy: dict[str, Any] = deep_copy(dict(crd))
        kind = self.find_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        if kind is not None and kind.schema is not None:
            kind.schema.prune(copy)
            for error in kind.schema.validate(copy):
                raise InvalidSpec(error.field, error.message)
        return copy

    def _rebuild(self) -> None:
        kinds = [*self._builtin, *(kind for served in self._custom.values() for kind in served)]
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in kinds}
        self.version += 1
