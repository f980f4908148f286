"""What installed packages offer: entry points, each to be loaded only when somebody wants to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from pliant.errors import BrokenPlugin
from pliant.frontends.frontend import Frontend
from pliant.model.framework import Framework

FRAMEWORK_GROUP, KIND_GROUP = "pliant.frameworks", "pliant.kinds"
"""The groups of entry points that are looked at, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntryPoint:
    """One entry point of one package."""

    group: str
    name: str
    package: str
    """`hello-kind 0.1`."""
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.name} of {self.package}"


def list_installed_plugins() -> Iterator[PluginEntryPoint]:
    """Every offer in this Python, in an order that does not depend on how it was installed."""
    for group in (FRAMEWORK_GROUP, KIND_GROUP):
        yield from sorted((_to_plugin(each) for each in entry_points(group=group)), key=str)


def _to_plugin(entry_point: EntryPoint) -> PluginEntryPoint:
    package = (
        f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist is not None else entry_point.value
    )
    return PluginEntryPoint(group=entry_point.group, name=entry_point.name, package=package, load=entry_point.load)


def load_plugin(plugin: PluginEntryPoint) -> Frontend | Framework:
    """The kind or the framework that is offered; raises BrokenPlugin if it cannot be used."""
    try:
        thing = plugin.load()
        made = thing() if isinstance(thing, type) else thing
        return _check_frontend(made) if plugin.group == KIND_GROUP else _check_framework(made)
    except BrokenPlugin:
        raise
    except (Exception, SystemExit) as error:  # somebody else's code: it must not take everybody down
        raise BrokenPlugin(_summarize_error(error)) from None


def _check_frontend(candidate: object) -> Frontend:
    if not isinstance(candidate, Frontend):
        raise BrokenPlugin(f"{_class_name(candidate)} is no kind: derive it from pliant.plugins.DLJob or Frontend")
    if not all(
        isinstance(word, str) and word
        for word in (candidate.group, candidate.version, candidate.kind, candidate.plural)
    ):
        raise BrokenPlugin(f"{_class_name(candidate)} must name its group, version, kind and plural")
    name, wanted = candidate.crd()["metadata"]["name"], f"{candidate.plural}.{candidate.group}"
    if name != wanted:
        raise BrokenPlugin(f"the definition of {candidate.kind} is named {name}, not {wanted}")
    return candidate


def _check_framework(candidate: object) -> Framework:
    if not isinstance(candidate, Framework):
        raise BrokenPlugin(f"{_class_name(candidate)} is no framework: derive it from pliant.plugins.Framework")
    words = (candidate.name, *candidate.aliases)
    if not all(isinstance(word, str) and word and word == word.lower() for word in words):
        raise BrokenPlugin(f"{_class_name(candidate)} must have a name in lower case, got {candidate.name!r}")
    return candidate


def _class_name(candidate: object) -> str:
    return candidate.__name__ if isinstance(candidate, type) else type(candidate).__name__


def _summarize_error(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
