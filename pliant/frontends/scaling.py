"""Scaling annotations of a job, and the scaling section of its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.crd import field_doc
from pliant.frontends.spec.decoding import invalid_choice_message
from pliant.model.job import AutoscalingSpec, Job, ReplicaGroup, ResizeMode
from pliant.model.state import EngineState, GroupState, Timestamp

AUTOSCALE_ANNOTATION = "pliant/autoscale"
RESIZE_MODE_ANNOTATION = "pliant/resize"
AUTOSCALE_POLICIES = ("edl", "fair", "goodput")
_AUTOSCALE_VALUES = ("on", "off", "recommend", *AUTOSCALE_POLICIES)


class GroupScalingStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The size of one elastic group, and where the size comes from."""

    group: Annotated[str, field_doc("Name of the group.")]
    size: Annotated[int, field_doc("Desired number of replicas.")] = 0
    min: Annotated[int, field_doc("Minimum number of replicas.")] = 0
    max: Annotated[int | None, field_doc("Maximum number of replicas.")] = None
    requested_by: Annotated[str, field_doc("Who requested the size: spec, scale, plan, master or autoscaler.")] = ""
    message: Annotated[str, field_doc("Why the size was requested.")] = ""
    request_time: Annotated[Timestamp | None, field_doc("Time when the size was requested.")] = None
    recommended_size: Annotated[int | None, field_doc("Size that the autoscaler recommends.")] = None
    recommendation_message: Annotated[str, field_doc("Reason for the recommendation or for a fixed size.")] = ""


def parse_autoscaling(annotations: Mapping[str, str]) -> AutoscalingSpec:
    """Parse the annotation `pliant/autoscale`, for example `goodput, recommend`."""
    path = f"metadata.annotations.{AUTOSCALE_ANNOTATION}"
    settings = AutoscalingSpec()
    words = [word.strip().lower() for word in annotations.get(AUTOSCALE_ANNOTATION, "").split(",")]
    for exclusive_values in (("on", "off"), AUTOSCALE_POLICIES):
        if len(conflicting := sorted({*words} & {*exclusive_values})) > 1:
            raise InvalidSpec(path, f"cannot have both {' and '.join(conflicting)}: remove one of them")
    for word in words:
        match word:
            case "":
                continue
            case "on" | "off":
                settings = replace(settings, is_enabled=word == "on")
            case "recommend":
                settings = replace(settings, is_advice_only=True)
            case word if word in AUTOSCALE_POLICIES:
                settings = replace(settings, policy=word)
            case _:
                raise InvalidSpec(path, invalid_choice_message(word, list(_AUTOSCALE_VALUES)))
    return settings


def with_scaling_annotations(
    groups: Iterable[ReplicaGroup], annotations: Mapping[str, str]
) -> tuple[ReplicaGroup, ...]:
    """Return the groups with the scaling settings of the job's annotations applied to the elastic groups."""
    is_autoscaled = parse_autoscaling(annotations).is_enabled
    resize_mode = annotations.get(RESIZE_MODE_ANNOTATION, "").strip().lower()
    if resize_mode and resize_mode not in list(ResizeMode):
        message = invalid_choice_message(resize_mode, list(ResizeMode))
        raise InvalidSpec(f"metadata.annotations.{RESIZE_MODE_ANNOTATION}", message)
    return tuple(_with_scaling_settings(each, is_autoscaled, resize_mode) for each in groups)


def _with_scaling_settings(group: ReplicaGroup, is_autoscaled: bool | None, resize_mode: str) -> ReplicaGroup:
    if not group.is_elastic:
        return group
    if is_autoscaled is not None:
        group = replace(group, is_autoscaled=is_autoscaled)
    if resize_mode:
        reason = f"set by annotation {RESIZE_MODE_ANNOTATION}" if resize_mode == ResizeMode.FIXED else ""
        group = replace(group, resize_mode=ResizeMode(resize_mode), fixed_size_reason=reason)
    return group


def scaling_status(job: Job, state: EngineState) -> tuple[GroupScalingStatus, ...]:
    """Return the scaling section of a status, with one entry per elastic group."""
    return tuple(_group_scaling_status(group, state.group(group.name)) for group in job.groups if group.is_elastic)


def _group_scaling_status(group: ReplicaGroup, group_state: GroupState) -> GroupScalingStatus:
    requester = group_state.latest_requester
    request = group_state.size_requests[requester] if requester else None
    advice = group_state.advice
    return GroupScalingStatus(
        group=group.name,
        size=group.size if group_state.applied_size is None else group_state.applied_size,
        min=group.min_size,
        max=group.max_size,
        requested_by=str(requester or ""),
        message=request.message if request else "",
        request_time=request.at.replace(microsecond=0) if request else None,
        recommended_size=advice.size if advice else None,
        recommendation_message=group.fixed_size_reason or (advice.message if advice else ""),
    )
