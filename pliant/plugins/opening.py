"""From an entry point to something that can be used: whatever is wrong with it, its author reads one line."""

from __future__ import annotations

from pliant.errors import BrokenPlugin
from pliant.frontends.base import Frontend
from pliant.model.framework import Framework
from pliant.plugins.offers import KINDS, Offer


def opened(offer: Offer) -> Frontend | Framework:
    """The kind or the framework that is offered; raises BrokenPlugin if it cannot be used."""
    try:
        thing = offer.load()
        made = thing() if isinstance(thing, type) else thing
        return _kind(made) if offer.group == KINDS else _framework(made)
    except BrokenPlugin:
        raise
    except (Exception, SystemExit) as error:  # somebody else's code: it must not take everybody down
        raise BrokenPlugin(_one_line(error)) from None


def _kind(kind: object) -> Frontend:
    if not isinstance(kind, Frontend):
        raise BrokenPlugin(f"{_title(kind)} is no kind: derive it from pliant.plugins.DLJob or Frontend")
    if not all(isinstance(word, str) and word for word in (kind.group, kind.version, kind.kind, kind.plural)):
        raise BrokenPlugin(f"{_title(kind)} must name its group, version, kind and plural")
    name, wanted = kind.crd()["metadata"]["name"], f"{kind.plural}.{kind.group}"
    if name != wanted:
        raise BrokenPlugin(f"the definition of {kind.kind} is named {name}, not {wanted}")
    return kind


def _framework(framework: object) -> Framework:
    if not isinstance(framework, Framework):
        raise BrokenPlugin(f"{_title(framework)} is no framework: derive it from pliant.plugins.Framework")
    words = (framework.name, *framework.aliases)
    if not all(isinstance(word, str) and word and word == word.lower() for word in words):
        raise BrokenPlugin(f"{_title(framework)} must have a name in lower case, got {framework.name!r}")
    return framework


def _title(thing: object) -> str:
    return thing.__name__ if isinstance(thing, type) else type(thing).__name__


def _one_line(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
