"""Option --kinds: which kinds of jobs a command installs, watches or checks."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from pliant.cli.problems import InvalidInput
    from pliant.frontends.base import Defined, Frontend

HELP = "only these kinds: families (paddle, kubeflow, …) or names (PyTorchJob), separated by commas (all)"


def add_kinds_option(parser: _ActionsContainer) -> None:
    """Declare --kinds, which can be repeated."""
    parser.add_argument(
        "--kinds", type=_parse_words, action="extend", default=[], dest="kinds", metavar="LIST", help=HELP
    )


def choose_kinds(words: Iterable[str]) -> tuple[Frontend, ...]:
    """Return the kinds that the words name, in a fixed order; every kind if there are no words.

    Raises InvalidInput for a word that names no kind, and for a name that kinds of several API groups share.
    """
    from pliant.plugins.known import kinds

    every = tuple(kinds().values())
    chosen = {id(kind) for word in words for kind in _find_kinds(word, every)}
    return tuple(kind for kind in every if id(kind) in chosen) if chosen else every


def choose_definitions(words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the definitions of the kinds that the words name; `scaleplans` names that definition alone."""
    from pliant.frontends.base import definitions
    from pliant.plugins.known import kinds

    plans = {id(kind.plans): kind.plans for kind in kinds().values() if kind.plans is not None}
    named = [plan for plan in plans.values() if any(_has_name(plan, word) for word in words)]
    others = [word for word in words if not any(_has_name(plan, word) for plan in named)]
    found = [crd for kind in (choose_kinds(others) if others or not words else ()) for crd in definitions(kind)]
    present = {crd["metadata"]["name"] for crd in found}
    return found + [plan.crd() for plan in named if full_name(plan) not in present]


def kinds_argument(chosen: Sequence[Frontend]) -> str:
    """Return the shortest list that chooses exactly these kinds: families first; empty for every kind."""
    from pliant.frontends.families import family_of
    from pliant.plugins.known import kinds

    every = kinds().values()
    if len(chosen) == len(every):
        return ""
    words: dict[str, None] = {}
    for kind in chosen:
        family = [other for other in every if other.group == kind.group]
        is_whole = all(other in chosen for other in family)
        words[family_of(kind.group) if is_whole else full_name(kind)] = None
    return ",".join(words)


def full_name(kind: Defined) -> str:
    """Return the name that no other kind has: `paddlejobs.kubeflow.org`."""
    return f"{kind.plural}.{kind.group}"


def _parse_words(text: str) -> list[str]:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    if not words:
        raise ArgumentTypeError("it names no kind; leave the option out for every kind")
    return words


def _find_kinds(word: str, every: Sequence[Frontend]) -> list[Frontend]:
    from pliant.cli.jobs import names_of
    from pliant.cli.problems import refuse
    from pliant.frontends.families import FAMILIES

    wanted = word.lower()
    group = FAMILIES.get(wanted, wanted)
    if family := [kind for kind in every if kind.group == group]:
        return family
    # Short names are written in the definitions, which take time to build.
    named = [kind for kind in every if _has_name(kind, word)] or [
        kind for kind in every if wanted in names_of(kind)
    ]
    if not named:
        raise _unknown(word, every)
    if len(named) > 1:
        names = ", ".join(full_name(kind) for kind in named)
        raise refuse(f"`{word}` names kinds of several API groups", fix=f"write one or more of: {names}")
    return named


def _has_name(kind: Defined, word: str) -> bool:
    own = (kind.kind.lower(), kind.plural)
    return word.lower() in (*own, *(f"{name}.{kind.group}" for name in own))


def _unknown(word: str, every: Sequence[Frontend]) -> InvalidInput:
    from pliant.cli.problems import refuse
    from pliant.frontends.families import family_of

    families = ", ".join(dict.fromkeys(family_of(kind.group) for kind in every))
    names = ", ".join(sorted({kind.kind for kind in every}))
    return refuse(f"Pliant has no kind `{word}`", fix=f"choose families ({families}) or kinds ({names})")
