"""Option --kinds: selects job kinds by family, API group, kind, plural or short name."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pliant.cli.input.problems import InvalidInput, input_error

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from pliant.frontends.frontend import CustomResourceType, Frontend

KINDS_HELP = "Job kinds: families (paddle, kubeflow…) or kinds (PyTorchJob), separated by commas (default: all)"


def add_kinds_option(parser: _ActionsContainer) -> None:
    parser.add_argument("--kinds", type=_parse_kind_list, action="extend", default=[], metavar="LIST", help=KINDS_HELP)


def choose_kinds(names: Iterable[str]) -> tuple[Frontend, ...]:
    """Return the kinds that the names select, all kinds if there are no names.

    Raise InvalidInput for an unknown name, and for a name that kinds of several API groups share.
    """
    from pliant.plugins.registry import registered_kinds

    all_kinds = tuple(registered_kinds().values())
    chosen = {id(kind) for name in names for kind in _find_kinds(name, all_kinds)}
    return tuple(kind for kind in all_kinds if id(kind) in chosen) if chosen else all_kinds


def choose_crds(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the CRDs of the kinds that the names select; `scaleplans` selects only that CRD."""
    from pliant.frontends.frontend import required_crds
    from pliant.plugins.registry import registered_kinds

    plans = list(dict.fromkeys(kind.plan_frontend for kind in registered_kinds().values() if kind.plan_frontend))
    named = [plan for plan in plans if any(_has_name(plan, name) for name in names)]
    others = [name for name in names if not any(_has_name(plan, name) for plan in named)]
    found = [crd for kind in (choose_kinds(others) if others or not names else ()) for crd in required_crds(kind)]
    present = {crd["metadata"]["name"] for crd in found}
    return found + [plan.crd() for plan in named if crd_name(plan) not in present]


def format_kinds_option(frontends: Sequence[Frontend]) -> str:
    """Return the shortest value of --kinds that selects exactly these kinds; empty for all kinds."""
    from pliant.frontends.families import family_of
    from pliant.plugins.registry import registered_kinds

    all_kinds = registered_kinds().values()
    if len(frontends) == len(all_kinds):
        return ""
    names: dict[str, None] = {}
    for kind in frontends:
        family = [other for other in all_kinds if other.group == kind.group]
        is_complete = all(other in frontends for other in family)
        names[family_of(kind.group) if is_complete else crd_name(kind)] = None
    return ",".join(names)


def crd_name(kind: CustomResourceType) -> str:
    """Return the name of the CRD: `paddlejobs.kubeflow.org`."""
    return f"{kind.plural}.{kind.group}"


def _parse_kind_list(text: str) -> list[str]:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    if not words:
        raise ArgumentTypeError("no kind given; omit the option for all kinds")
    return words


def _find_kinds(kind_name: str, all_frontends: Sequence[Frontend]) -> list[Frontend]:
    from pliant.cli.cluster.job_lookup import kind_names
    from pliant.frontends.families import API_GROUP_BY_FAMILY

    wanted = kind_name.lower()
    group = API_GROUP_BY_FAMILY.get(wanted, wanted)
    if family := [kind for kind in all_frontends if kind.group == group]:
        return family
    # Short names are in the CRDs, which take time to build.
    named = [kind for kind in all_frontends if _has_name(kind, kind_name)] or [
        kind for kind in all_frontends if wanted in kind_names(kind)
    ]
    if not named:
        raise _unknown_kind_error(kind_name, all_frontends)
    if len(named) > 1:
        names = ", ".join(crd_name(kind) for kind in named)
        raise input_error(f"several API groups have a kind `{kind_name}`", fix=f"write one or more of: {names}")
    return named


def _has_name(kind: CustomResourceType, kind_name: str) -> bool:
    own = (kind.kind.lower(), kind.plural)
    return kind_name.lower() in (*own, *(f"{name}.{kind.group}" for name in own))


def _unknown_kind_error(kind_name: str, all_frontends: Sequence[Frontend]) -> InvalidInput:
    from pliant.frontends.families import family_of

    families = ", ".join(dict.fromkeys(family_of(kind.group) for kind in all_frontends))
    names = ", ".join(sorted({kind.kind for kind in all_frontends}))
    return input_error(f"unknown kind `{kind_name}`", fix=f"use families ({families}) or kinds ({names})")
