"""Option --kinds: which kinds of jobs a command installs, watches or checks."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from pliant.cli.input.problems import InvalidInput
    from pliant.frontends.frontend import CustomResourceType, Frontend

KINDS_HELP = "only these kinds: families (paddle, kubeflow, …) or names (PyTorchJob), separated by commas (all)"


def add_kinds_option(parser: _ActionsContainer) -> None:
    """Declare --kinds, which can be repeated."""
    parser.add_argument(
        "--kinds", type=_parse_kind_list, action="extend", default=[], dest="kinds", metavar="LIST", help=KINDS_HELP
    )


def choose_kinds(names: Iterable[str]) -> tuple[Frontend, ...]:
    """Return the kinds that the words name, in a fixed order; every kind if there are no words.

    Raises InvalidInput for a word that names no kind, and for a name that kinds of several API groups share.
    """
    from pliant.plugins.registry import registered_kinds

    every = tuple(registered_kinds().values())
    chosen = {id(kind) for word in names for kind in _find_kinds(word, every)}
    return tuple(kind for kind in every if id(kind) in chosen) if chosen else every


def choose_crds(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the definitions of the kinds that the words name; `scaleplans` names that definition alone."""
    from pliant.frontends.frontend import required_crds
    from pliant.plugins.registry import registered_kinds

    plans = {
        id(kind.plan_frontend): kind.plan_frontend
        for kind in registered_kinds().values()
        if kind.plan_frontend is not None
    }
    named = [plan for plan in plans.values() if any(_has_name(plan, word) for word in names)]
    others = [word for word in names if not any(_has_name(plan, word) for plan in named)]
    found = [crd for kind in (choose_kinds(others) if others or not names else ()) for crd in required_crds(kind)]
    present = {crd["metadata"]["name"] for crd in found}
    return found + [plan.crd() for plan in named if crd_name(plan) not in present]


def format_kinds_option(frontends: Sequence[Frontend]) -> str:
    """Return the shortest list that chooses exactly these kinds: families first; empty for every kind."""
    from pliant.frontends.families import family_of
    from pliant.plugins.registry import registered_kinds

    every = registered_kinds().values()
    if len(frontends) == len(every):
        return ""
    words: dict[str, None] = {}
    for kind in frontends:
        family = [other for other in every if other.group == kind.group]
        is_whole = all(other in frontends for other in family)
        words[family_of(kind.group) if is_whole else crd_name(kind)] = None
    return ",".join(words)


def crd_name(kind: CustomResourceType) -> str:
    """Return the name that no other kind has: `paddlejobs.kubeflow.org`."""
    return f"{kind.plural}.{kind.group}"


def _parse_kind_list(text: str) -> list[str]:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    if not words:
        raise ArgumentTypeError("it names no kind; leave the option out for every kind")
    return words


def _find_kinds(kind_name: str, all_frontends: Sequence[Frontend]) -> list[Frontend]:
    from pliant.cli.cluster.job_lookup import kind_names
    from pliant.cli.input.problems import input_error
    from pliant.frontends.families import KIND_FAMILIES

    wanted = kind_name.lower()
    group = KIND_FAMILIES.get(wanted, wanted)
    if family := [kind for kind in all_frontends if kind.group == group]:
        return family
    # Short names are written in the definitions, which take time to build.
    named = [kind for kind in all_frontends if _has_name(kind, kind_name)] or [
        kind for kind in all_frontends if wanted in kind_names(kind)
    ]
    if not named:
        raise _unknown_kind_error(kind_name, all_frontends)
    if len(named) > 1:
        names = ", ".join(crd_name(kind) for kind in named)
        raise input_error(f"`{kind_name}` names kinds of several API groups", fix=f"write one or more of: {names}")
    return named


def _has_name(kind: CustomResourceType, kind_name: str) -> bool:
    own = (kind.kind.lower(), kind.plural)
    return kind_name.lower() in (*own, *(f"{name}.{kind.group}" for name in own))


def _unknown_kind_error(kind_name: str, all_frontends: Sequence[Frontend]) -> InvalidInput:
    from pliant.cli.input.problems import input_error
    from pliant.frontends.families import family_of

    families = ", ".join(dict.fromkeys(family_of(kind.group) for kind in all_frontends))
    names = ", ".join(sorted({kind.kind for kind in all_frontends}))
    return input_error(f"Pliant has no kind `{kind_name}`", fix=f"choose families ({families}) or kinds ({names})")
