"""What is served now: the built-in kinds, and those that CRDs add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.embedded.registry.builtin_kinds import builtin_kinds
from pliant.embedded.registry.crds import kinds_of
from pliant.embedded.registry.kinds import ALL_VERBS, Kind, ScaleFieldPaths
from pliant.embedded.schema import deep_copy
from pliant.errors import InvalidSpec

__all__ = ["ALL_VERBS", "Kind", "KindRegistry", "ScaleFieldPaths"]


class KindRegistry:
    """The kinds served now; `version` grows with every change, so answers made from it can be kept until then."""

    def __init__(self, builtin: Iterable[Kind] = ()) -> None:
        self.version = 0
        self._builtin = tuple(builtin)
        self._custom: dict[str, tuple[Kind, ...]] = {}
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self._builtin}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in self._builtin}

    @classmethod
    def with_builtin_kinds(cls) -> KindRegistry:
        """A catalog that serves the built-in kinds."""
        return cls(builtin_kinds())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a path, if it is served."""
        return self._by_path.get((group, version, plural))

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind an object claims to be, if it is served."""
        return self._by_kind.get((api_version, kind))

    def kinds(self) -> Iterable[Kind]:
        """Every served kind, built-ins first."""
        return self._by_path.values()

    def register_crd(self, crd: Mapping[str, Any]) -> None:
        """Serve what a CRD defines now; InvalidSpec names the field that prevents it, and nothing changes."""
        kinds = kinds_of(self._validated_copy(crd))
        self._custom[crd["metadata"]["name"]] = kinds
        self._rebuild()

    def unregister_crd(self, name: str) -> None:
        """Serve a CRD's kinds no longer."""
        if self._custom.pop(name, None) is not None:
            self._rebuild()

    def _validated_copy(self, crd: Mapping[str, Any]) -> dict[str, Any]:
        """A copy that fits the schema of CRDs, so that its members can be trusted."""
        sound: dict[str, Any] = deep_copy(dict(crd))
        kind = self.find_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        if kind is not None and kind.schema is not None:
            kind.schema.prune(sound)
            for problem in kind.schema.validate(sound):
                raise InvalidSpec(problem.field, problem.message)
        return sound

    def _rebuild(self) -> None:
        kinds = [*self._builtin, *(kind for served in self._custom.values() for kind in served)]
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in kinds}
        self.version += 1
