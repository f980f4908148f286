"""Every kind and every framework there is: Pliant's own, and those that installed packages add."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from pliant import frameworks, frontends
from pliant.errors import BrokenPlugin
from pliant.frontends.base import Frontend
from pliant.frontends.dljob import DLJob
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.plugins.offers import Offer, installed_offers
from pliant.plugins.opening import opened

OURS = "Pliant itself"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """The tables, and who brought what."""

    kinds: dict[tuple[str, str], Frontend] = field(default_factory=dict)
    frameworks: dict[str, Framework] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    """What plugins brought: `HelloJob of hello-kind 0.1`."""
    problems: list[str] = field(default_factory=list)
    """Which plugins are left out and why, a line each."""
    _bearers: dict[str, str] = field(default_factory=dict)
    """Who brought the framework or the kind of a name."""

    def enter_framework(self, framework: Framework, bearer: str) -> None:
        """Make a framework known by all its words; raises BrokenPlugin if one is taken."""
        words = (framework.name, *framework.aliases)
        for word in words:
            if word in self.frameworks:
                raise BrokenPlugin(f"there is a framework `{word}` already, by {self._bearers[word]}")
        self.frameworks |= dict.fromkeys(words, framework)
        self._bearers |= dict.fromkeys(words, bearer)

    def enter_kind(self, kind: Frontend, bearer: str) -> None:
        """Make a kind known; raises BrokenPlugin if its name is taken."""
        name = f"{kind.plural}.{kind.group}"
        key = (kind.group, kind.kind)
        if name in self._bearers or key in self.kinds:
            taken = self._bearers.get(name) or self._bearers[f"{self.kinds[key].plural}.{kind.group}"]
            raise BrokenPlugin(f"there is a kind {kind.kind} of {kind.group} already, by {taken}")
        if isinstance(kind, DLJob):
            self._enter_contract(kind, bearer)
        self.kinds[key] = kind
        self._bearers[name] = bearer

    def _enter_contract(self, kind: DLJob, bearer: str) -> None:
        """The framework that comes with a kind."""
        for word in kind.frameworks:
            if word not in self.frameworks:
                raise BrokenPlugin(f"it needs a framework `{word}`, which is not installed")
        self.enter_framework(kind.contract, bearer)


def gathered(offers: Iterable[Offer]) -> Known:
    """What is Pliant's own, then all that is offered and can be used; nothing takes the place of what is there."""
    found = Known()
    for framework in dict.fromkeys(frameworks.FRAMEWORKS.values()):
        found.enter_framework(framework, OURS)
    for kind in frontends.FRONTENDS.values():
        found.enter_kind(kind, OURS)
    for offer in offers:
        try:
            thing = opened(offer)
            if isinstance(thing, Frontend):
                found.enter_kind(thing, offer.package)
            else:
                found.enter_framework(thing, offer.package)
        except BrokenPlugin as problem:
            found.problems.append(f"plugin {offer} is left out: {problem}")
        else:
            found.added.append(str(offer))
    return found


@cache
def known() -> Known:
    """What there is in this Python; looked for once, when it is first asked for."""
    found = gathered(installed_offers())
    for problem in found.problems:
        log.warning(problem)
    return found


def kinds() -> Mapping[tuple[str, str], Frontend]:
    """Every kind that is understood, by API group and kind."""
    return known().kinds


def contract_of(job: Job) -> Framework:
    """What the members of a job are given."""
    return frameworks.contract_of(job, known().frameworks)
