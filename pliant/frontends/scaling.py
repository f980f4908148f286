"""What a job may say about its size in annotations, and what its status says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.crd import field_doc
from pliant.frontends.spec.decoding import invalid_choice_message
from pliant.model.job import AutoscalingSpec, Job, ReplicaGroup, ResizeMode
from pliant.model.state import EngineState, GroupState, Timestamp

AUTOSCALE_ANNOTATION = "pliant/autoscale"
RESIZE_ANNOTATION = "pliant/resize"
AUTOSCALE_POLICIES = ("edl", "fair", "goodput")
_AUTOSCALE_VALUES = ("on", "off", "recommend", *AUTOSCALE_POLICIES)


class GroupScalingStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The size of one group that may change, and why it is what it is."""

    group: Annotated[str, field_doc("Which group.")]
    size: Annotated[int, field_doc("How many members it is to have.")] = 0
    min: Annotated[int, field_doc("The fewest it may have.")] = 0
    max: Annotated[int | None, field_doc("The most it may have.")] = None
    by: Annotated[str, field_doc("Who asked for this size last: spec, scale or autoscaler.")] = ""
    reason: Annotated[str, field_doc("Why, in the words of whoever asked.")] = ""
    since: Annotated[Timestamp | None, field_doc("Since when they ask for it.")] = None
    recommended: Annotated[int | None, field_doc("The size that the autoscaler thinks right.")] = None
    why: Annotated[str, field_doc("Why it thinks so; or why the size cannot be changed.")] = ""


def parse_autoscaling(annotations: Mapping[str, str]) -> AutoscalingSpec:
    """What a job says about the autoscaler, `pliant/autoscale: goodput, recommend`."""
    found = AutoscalingSpec()
    words = [each.strip().lower() for each in annotations.get(AUTOSCALE_ANNOTATION, "").split(",")]
    for several in (("on", "off"), AUTOSCALE_POLICIES):
        if len(said := sorted({*words} & {*several})) > 1:
            raise InvalidSpec(
                f"metadata.annotations.{AUTOSCALE_ANNOTATION}", f"says both {' and '.join(said)}: keep one"
            )
    for word in words:
        match word:
            case "":
                continue
            case "on" | "off":
                found = replace(found, is_enabled=word == "on")
            case "recommend":
                found = replace(found, is_advice_only=True)
            case word if word in AUTOSCALE_POLICIES:
                found = replace(found, policy=word)
            case _:
                raise InvalidSpec(
                    f"metadata.annotations.{AUTOSCALE_ANNOTATION}",
                    invalid_choice_message(word, list(_AUTOSCALE_VALUES)),
                )
    return found


def with_scaling_annotations(
    groups: tuple[ReplicaGroup, ...], annotations: Mapping[str, str]
) -> tuple[ReplicaGroup, ...]:
    """The groups with what annotations say about changing their sizes."""
    wanted = parse_autoscaling(annotations).is_enabled
    word = annotations.get(RESIZE_ANNOTATION, "").strip().lower()
    if word and word not in list(ResizeMode):
        raise InvalidSpec(f"metadata.annotations.{RESIZE_ANNOTATION}", invalid_choice_message(word, list(ResizeMode)))
    return tuple(_with_scaling_settings(group, wanted, word) if group.is_elastic else group for group in groups)


def _with_scaling_settings(group: ReplicaGroup, is_autoscaled: bool | None, resize_mode: str) -> ReplicaGroup:
    if is_autoscaled is not None:
        group = replace(group, is_autoscaled=is_autoscaled)
    if resize_mode:
        hold = f"annotation {RESIZE_ANNOTATION} says so" if resize_mode == ResizeMode.FIXED else ""
        group = replace(group, resize_mode=ResizeMode(resize_mode), fixed_size_reason=hold)
    return group


def scaling_status(job: Job, state: EngineState) -> tuple[GroupScalingStatus, ...]:
    """What a status tells of the sizes of a job's elastic groups."""
    return tuple(_group_scaling_status(group, state.group(group.name)) for group in job.groups if group.is_elastic)


def _group_scaling_status(group: ReplicaGroup, group_state: GroupState) -> GroupScalingStatus:
    latest = group_state.latest_requester
    request = group_state.size_requests[latest] if latest else None
    advice = group_state.advice
    return GroupScalingStatus(
        group=group.name,
        size=group.size if group_state.applied_size is None else group_state.applied_size,
        min=group.min_size,
        max=group.max_size,
        by=str(latest or ""),
        reason=request.message if request else "",
        since=request.at.replace(microsecond=0) if request else None,
        recommended=advice.size if advice else None,
        why=group.fixed_size_reason or (advice.message if advice else ""),
    )
