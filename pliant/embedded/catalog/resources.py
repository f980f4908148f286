"""What is served now: the built-in kinds, and those that CRDs add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.embedded.catalog.builtin import builtin_kinds
from pliant.embedded.catalog.crds import kinds_of
from pliant.embedded.catalog.kinds import ALL_VERBS, Kind, ScalePaths
from pliant.embedded.schema import copied
from pliant.errors import InvalidSpec

__all__ = ["ALL_VERBS", "Catalog", "Kind", "ScalePaths"]


class Catalog:
    """The kinds served now; `version` grows with every change, so answers made from it can be kept until then."""

    def __init__(self, builtin: Iterable[Kind] = ()) -> None:
        self.version = 0
        self._builtin = tuple(builtin)
        self._custom: dict[str, tuple[Kind, ...]] = {}
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self._builtin}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in self._builtin}

    @classmethod
    def standard(cls) -> Catalog:
        """A catalog that serves the built-in kinds."""
        return cls(builtin_kinds())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a path, if it is served."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind an object claims to be, if it is served."""
        return self._by_kind.get((api_version, kind))

    def kinds(self) -> Iterable[Kind]:
        """Every served kind, built-ins first."""
        return self._by_path.values()

    def put_crd(self, crd: Mapping[str, Any]) -> None:
        """Serve what a CRD defines now; InvalidSpec names the field that prevents it, and nothing changes."""
        kinds = kinds_of(self._sound(crd))
        self._custom[crd["metadata"]["name"]] = kinds
        self._rebuild()

    def drop_crd(self, name: str) -> None:
        """Serve a CRD's kinds no longer."""
        if self._custom.pop(name, None) is not None:
            self._rebuild()

    def _sound(self, crd: Mapping[str, Any]) -> dict[str, Any]:
        """A copy that fits the schema of CRDs, so that its members can be trusted."""
        sound: dict[str, Any] = copied(dict(crd))
        kind = self.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
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
