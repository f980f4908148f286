"""The registry of all kinds and frameworks: built-in ones and those of plugins."""

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

BUILT_IN_PROVIDER = "Pliant"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PluginRegistry:
    kinds: dict[tuple[str, str], Frontend] = field(default_factory=dict)
    frameworks: dict[str, Framework] = field(default_factory=dict)
    loaded_plugins: list[str] = field(default_factory=list)
    """The loaded plugins: `HelloJob of hello-kind 0.1`."""
    skipped_plugin_messages: list[str] = field(default_factory=list)
    """The skipped plugins and the reasons, one line each."""
    _providers: dict[str, str] = field(default_factory=dict)
    """The package that provides each framework or kind, by name."""

    def register_framework(self, framework: Framework, provider: str) -> None:
        """Register a framework by its name and aliases; raises BrokenPlugin if one of them is in use."""
        names = (framework.name, *framework.aliases)
        for name in names:
            if name in self.frameworks:
                raise BrokenPlugin(f"framework `{name}` already exists, provided by {self._providers[name]}")
        self.frameworks |= dict.fromkeys(names, framework)
        self._providers |= dict.fromkeys(names, provider)

    def register_kind(self, frontend: Frontend, provider: str) -> None:
        """Register a kind; raises BrokenPlugin if it exists already."""
        name = f"{frontend.plural}.{frontend.group}"
        key = (frontend.group, frontend.kind)
        if name in self._providers or key in self.kinds:
            existing = self._providers.get(name) or self._providers[f"{self.kinds[key].plural}.{frontend.group}"]
            raise BrokenPlugin(f"kind {frontend.kind} of {frontend.group} already exists, provided by {existing}")
        if isinstance(frontend, DLJob):
            for required in frontend.frameworks:
                if required not in self.frameworks:
                    raise BrokenPlugin(f"it requires the framework `{required}`, which is not installed")
            self.register_framework(frontend.own_framework, provider)
        self.kinds[key] = frontend
        self._providers[name] = provider


def build_registry(plugins: Iterable[PluginEntryPoint]) -> PluginRegistry:
    """Register the built-in kinds and frameworks, then the plugins; a plugin cannot replace what exists."""
    registry = PluginRegistry()
    for framework in dict.fromkeys(frameworks.FRAMEWORKS.values()):
        registry.register_framework(framework, BUILT_IN_PROVIDER)
    for kind in frontends.FRONTENDS.values():
        registry.register_kind(kind, BUILT_IN_PROVIDER)
    for plugin in plugins:
        try:
            loaded = load_plugin(plugin)
            if isinstance(loaded, Frontend):
                registry.register_kind(loaded, plugin.package)
            else:
                registry.register_framework(loaded, plugin.package)
        except BrokenPlugin as problem:
            registry.skipped_plugin_messages.append(f"plugin {plugin} is skipped: {problem}")
        else:
            registry.loaded_plugins.append(str(plugin))
    return registry


@cache
def get_plugin_registry() -> PluginRegistry:
    """Return the registry of this Python environment; built on the first call."""
    registry = build_registry(list_installed_plugins())
    for problem in registry.skipped_plugin_messages:
        log.warning(problem)
    return registry


def registered_kinds() -> Mapping[tuple[str, str], Frontend]:
    return get_plugin_registry().kinds


def framework_of(job: Job) -> Framework:
    return frameworks.resolve_framework(job, get_plugin_registry().frameworks)
