"""Every kind and every framework there is: Pliant's own, and those that installed packages add."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from pliant import frameworks, frontends
from pliant.errors import BrokenPlugin
from pliant.frontends.dl.job import DLJob
from pliant.frontends.frontend import Frontend
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.plugins.entry_points import PluginEntryPoint, list_installed_plugins, load_plugin

BUILT_IN_PROVIDER = "Pliant itself"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PluginRegistry:
    """The tables, and who brought what."""

    kinds: dict[tuple[str, str], Frontend] = field(default_factory=dict)
    frameworks: dict[str, Framework] = field(default_factory=dict)
    added_plugins: list[str] = field(default_factory=list)
    """What plugins brought: `HelloJob of hello-kind 0.1`."""
    problems: list[str] = field(default_factory=list)
    """Which plugins are left out and why, a line each."""
    _providers: dict[str, str] = field(default_factory=dict)
    """Who brought the framework or the kind of a name."""

    def register_framework(self, framework: Framework, provider: str) -> None:
        """Make a framework known by all its words; raises BrokenPlugin if one is taken."""
        words = (framework.name, *framework.aliases)
        for word in words:
            if word in self.frameworks:
                raise BrokenPlugin(f"there is a framework `{word}` already, by {self._providers[word]}")
        self.frameworks |= dict.fromkeys(words, framework)
        self._providers |= dict.fromkeys(words, provider)

    def register_kind(self, frontend: Frontend, provider: str) -> None:
        """Make a kind known; raises BrokenPlugin if its name is taken."""
        name = f"{frontend.plural}.{frontend.group}"
        key = (frontend.group, frontend.kind)
        if name in self._providers or key in self.kinds:
            taken = self._providers.get(name) or self._providers[f"{self.kinds[key].plural}.{frontend.group}"]
            raise BrokenPlugin(f"there is a kind {frontend.kind} of {frontend.group} already, by {taken}")
        if isinstance(frontend, DLJob):
            self._register_kind_framework(frontend, provider)
        self.kinds[key] = frontend
        self._providers[name] = provider

    def _register_kind_framework(self, frontend: DLJob, provider: str) -> None:
        """The framework that comes with a kind."""
        for word in frontend.frameworks:
            if word not in self.frameworks:
                raise BrokenPlugin(f"it needs a framework `{word}`, which is not installed")
        self.register_framework(frontend.own_framework, provider)


def build_registry(plugins: Iterable[PluginEntryPoint]) -> PluginRegistry:
    """What is Pliant's own, then all that is offered and can be used; nothing takes the place of what is there."""
    found = PluginRegistry()
    for framework in dict.fromkeys(frameworks.FRAMEWORKS.values()):
        found.register_framework(framework, BUILT_IN_PROVIDER)
    for kind in frontends.FRONTENDS.values():
        found.register_kind(kind, BUILT_IN_PROVIDER)
    for offer in plugins:
        try:
            thing = load_plugin(offer)
            if isinstance(thing, Frontend):
                found.register_kind(thing, offer.package)
            else:
                found.register_framework(thing, offer.package)
        except BrokenPlugin as problem:
            found.problems.append(f"plugin {offer} is left out: {problem}")
        else:
            found.added_plugins.append(str(offer))
    return found


@cache
def get_registry() -> PluginRegistry:
    """What there is in this Python; looked for once, when it is first asked for."""
    found = build_registry(list_installed_plugins())
    for problem in found.problems:
        log.warning(problem)
    return found


def registered_kinds() -> Mapping[tuple[str, str], Frontend]:
    """Every kind that is understood, by API group and kind."""
    return get_registry().kinds


def framework_of(job: Job) -> Framework:
    """What the members of a job are given."""
    return frameworks.resolve_framework(job, get_registry().frameworks)
