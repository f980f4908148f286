"""What a job may say about its size in annotations, and what its status says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.crd import told
from pliant.frontends.reading import not_one_of
from pliant.model.job import Autoscaling, Group, Job, Resize
from pliant.model.state import EngineState, GroupState, Time

AUTOSCALE = "pliant/autoscale"
RESIZE = "pliant/resize"
POLICIES = ("edl", "fair", "goodput")
_WORDS = ("on", "off", "recommend", *POLICIES)


class GroupScaling(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The size of one group that may change, and why it is what it is."""

    group: Annotated[str, told("Which group.")]
    size: Annotated[int, told("How many members it is to have.")] = 0
    min: Annotated[int, told("The fewest it may have.")] = 0
    max: Annotated[int | None, told("The most it may have.")] = None
    by: Annotated[str, told("Who asked for this size last: spec, scale or autoscaler.")] = ""
    reason: Annotated[str, told("Why, in the words of whoever asked.")] = ""
    since: Annotated[Time | None, told("Since when they ask for it.")] = None
    recommended: Annotated[int | None, told("The size that the autoscaler thinks right.")] = None
    why: Annotated[str, told("Why it thinks so; or why the size cannot be changed.")] = ""


def autoscaling_in(annotations: Mapping[str, str]) -> Autoscaling:
    """What a job says about the autoscaler, `pliant/autoscale: goodput, recommend`."""
    found = Autoscaling()
    words = [each.strip().lower() for each in annotations.get(AUTOSCALE, "").split(",")]
    for several in (("on", "off"), POLICIES):
        if len(said := sorted({*words} & {*several})) > 1:
            raise InvalidSpec(f"metadata.annotations.{AUTOSCALE}", f"says both {' and '.join(said)}: keep one")
    for word in words:
        match word:
            case "":
                continue
            case "on" | "off":
                found = replace(found, is_wanted=word == "on")
            case "recommend":
                found = replace(found, only_advice=True)
            case word if word in POLICIES:
                found = replace(found, policy=word)
            case _:
                raise InvalidSpec(f"metadata.annotations.{AUTOSCALE}", not_one_of(word, list(_WORDS)))
    return found


def scaled_by(groups: tuple[Group, ...], annotations: Mapping[str, str]) -> tuple[Group, ...]:
    """The groups with what annotations say about changing their sizes."""
    wanted = autoscaling_in(annotations).is_wanted
    word = annotations.get(RESIZE, "").strip().lower()
    if word and word not in list(Resize):
        raise InvalidSpec(f"metadata.annotations.{RESIZE}", not_one_of(word, list(Resize)))
    return tuple(_scaled(group, wanted, word) if group.is_elastic else group for group in groups)


def _scaled(group: Group, wanted: bool | None, word: str) -> Group:
    if wanted is not None:
        group = replace(group, is_automatic=wanted)
    if word:
        hold = f"annotation {RESIZE} says so" if word == Resize.HOLD else ""
        group = replace(group, resize=Resize(word), hold=hold)
    return group


def scaling_in(job: Job, state: EngineState) -> tuple[GroupScaling, ...]:
    """What a status tells of the sizes of a job's elastic groups."""
    return tuple(_words(group, state.group(group.name)) for group in job.groups if group.is_elastic)


def _words(group: Group, memory: GroupState) -> GroupScaling:
    latest = memory.latest
    request = memory.requests[latest] if latest else None
    advice = memory.advice
    return GroupScaling(
        group=group.name,
        size=group.size if memory.size is None else memory.size,
        min=group.least,
        max=group.most,
        by=str(latest or ""),
        reason=request.why if request else "",
        since=request.at.replace(microsecond=0) if request else None,
        recommended=advice.size if advice else None,
        why=group.hold or (advice.why if advice else ""),
    )
