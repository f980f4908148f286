"""Plugins in the entry points of installed packages, loaded on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points

from pliant.errors import BrokenPlugin
from pliant.frontends.frontend import Frontend
from pliant.model.framework import Framework

FRAMEWORK_GROUP, KIND_GROUP = "pliant.frameworks", "pliant.kinds"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntryPoint:
    group: str
    name: str
    package: str
    """Name and version: `hello-kind 0.1`."""
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.name} of {self.package}"


def list_installed_plugins() -> Iterator[PluginEntryPoint]:
    """Yield the plugins of this Python environment, frameworks first, in a stable order."""
    for group in (FRAMEWORK_GROUP, KIND_GROUP):
        plugins = []
        for each in entry_points(group=group):
            package = f"{each.dist.name} {each.dist.version}" if each.dist is not None else each.value
            plugins.append(PluginEntryPoint(group=group, name=each.name, package=package, load=each.load))
        yield from sorted(plugins, key=str)


def load_plugin(plugin: PluginEntryPoint) -> Frontend | Framework:
    """Load and check the kind or framework of a plugin; raises BrokenPlugin if it cannot be used."""
    try:
        loaded = plugin.load()
        instance = loaded() if isinstance(loaded, type) else loaded
        return _check_frontend(instance) if plugin.group == KIND_GROUP else _check_framework(instance)
    except BrokenPlugin:
        raise
    except (Exception, SystemExit) as error:  # a faulty plugin must not stop the operator
        summary = " ".join(str(error).split())
        raise BrokenPlugin(f"{type(error).__name__}: {summary}" if summary else type(error).__name__) from None


def _check_frontend(candidate: object) -> Frontend:
    if not isinstance(candidate, Frontend):
        raise BrokenPlugin(f"{_class_name(candidate)} is not a kind: derive it from pliant.plugins.DLJob or Frontend")
    names = (candidate.group, candidate.version, candidate.kind, candidate.plural)
    if not all(isinstance(name, str) and name for name in names):
        raise BrokenPlugin(f"{_class_name(candidate)} must set group, version, kind and plural")
    name, wanted = candidate.crd()["metadata"]["name"], f"{candidate.plural}.{candidate.group}"
    if name != wanted:
        raise BrokenPlugin(f"the CRD of {candidate.kind} is named {name}, it must be {wanted}")
    return candidate


def _check_framework(candidate: object) -> Framework:
    if not isinstance(candidate, Framework):
        raise BrokenPlugin(f"{_class_name(candidate)} is not a framework: derive it from pliant.plugins.Framework")
    names = (candidate.name, *candidate.aliases)
    if not all(isinstance(name, str) and name and name == name.lower() for name in names):
        raise BrokenPlugin(f"{_class_name(candidate)} must have a non-empty name in lower case, got {candidate.name!r}")
    return candidate


def _class_name(candidate: object) -> str:
    return candidate.__name__ if isinstance(candidate, type) else type(candidate).__name__
