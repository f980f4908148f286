"""When an edit of a field takes effect, found out by parsing the job before and after."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from enum import StrEnum
from typing import Any

from msgspec.structs import replace as state_replace

from pliant.errors import InvalidSpec
from pliant.frontends import FRONTENDS
from pliant.frontends.accepted_spec import is_managed_externally, managed_by_rejection
from pliant.model.job import Job, ReplicaGroup, ResizeMode
from pliant.model.messages import NO_MESSAGE
from pliant.model.state import EngineState, GroupState, JobOutcome, JobPhase
from tests.builders import NOON
from tests.edits.fields import Edit, edits_of
from tests.edits.jobs import KindKey, Raw, job_of


class Effect(StrEnum):
    """When an edit takes effect."""

    AT_ONCE = "at once"
    IN_NEW_PODS = "in pods that are created afterwards"
    AT_RESUME = "when the job is resumed; while it runs, the size is fixed"
    WHILE_SUSPENDED = "only while the job is suspended"
    BY_MASTER = "when the master of the job reads it"
    NONE = "never; the field is ignored"
    INVALID = "never; the value is rejected"


POD_FIELDS = {"framework_options", "frameworks", "scheduler_name", "priority_class", "naming", "labels"}
POD_GROUP_FIELDS = {"template", "template_hash", "ports", "labels", "first_pod_labels", "priority_class"}
MASTER_FIELDS = {"resourceLimits", "optimizeMode", "brainService", "restartCount", "autoScale", "criticalNodes"}
IGNORED_FIELDS = {"warnings", "generation", "groups"}


def effect_of(edit: Edit) -> Effect:
    """Parse an active job before and after an edit, and compare."""
    before = job_of(edit.kind)
    after = edit.applied(before)
    running, suspended = _state(before, edit, JobPhase.RUNNING), _state(before, edit, JobPhase.SUSPENDED)
    try:
        # Some policies are read at the end only.
        states = (running, *(_ended(running, phase) for phase in (JobPhase.SUCCEED, JobPhase.FAILED)))
        effects = [_difference(_parse(before, edit, each), _parse(after, edit, each)) for each in states]
        return _by_master(edit) or next((each for each in effects if each is not Effect.NONE), Effect.NONE)
    except InvalidSpec:
        try:
            _parse(after, edit, suspended)
        except InvalidSpec:
            return Effect.INVALID
        return Effect.WHILE_SUSPENDED


def documented_effects(kind: KindKey) -> dict[str, Effect]:
    """The effect of an edit of each field: that of the value which has the most."""
    order = [Effect.WHILE_SUSPENDED, Effect.AT_RESUME, Effect.AT_ONCE, Effect.IN_NEW_PODS, Effect.BY_MASTER]
    order += [Effect.NONE, Effect.INVALID]
    effects: dict[str, Effect] = {}
    for edit in edits_of(kind):
        name = re.sub(r"^[a-z]+ReplicaSpecs", "…ReplicaSpecs", edit.name)
        effects[name] = min(effects.get(name, Effect.INVALID), effect_of(edit), key=order.index)
    return effects


def _by_master(edit: Edit) -> Effect | None:
    """Whether only the master of a job reads a field; the operator would not tell that from one that is ignored."""
    frontend = FRONTENDS[edit.kind]
    return Effect.BY_MASTER if frontend.plan_frontend and edit.path[-1] in MASTER_FIELDS else None


def _ended(state: EngineState, phase: JobPhase) -> EngineState:
    outcome = JobOutcome(phase=phase, message=NO_MESSAGE, at=NOON)
    return state_replace(state, phase=JobPhase.TERMINATING, outcome=outcome)


def _parse(raw: Raw, edit: Edit, state: EngineState | None) -> Job:
    """Parse a job as the operator does while it has pods, which is as long as it runs."""
    frontend = FRONTENDS[edit.kind]
    job = frontend.parse(raw, state)
    if state is not None and state.phase is JobPhase.RUNNING and is_managed_externally(job):
        raise managed_by_rejection(frontend)
    return job


def _state(raw: Raw, edit: Edit, phase: JobPhase) -> EngineState:
    groups = _parse(raw, edit, None).groups
    made = {each.name: GroupState(template_hash=each.template_hash, applied_size=each.size) for each in groups}
    return EngineState(phase=phase, started_at=NOON, groups=made)


def _difference(before: Job, after: Job) -> Effect:
    changed = _changed_fields(before, after) - IGNORED_FIELDS
    groups = {group.name: group for group in before.groups}
    if groups.keys() != {group.name for group in after.groups}:
        return Effect.AT_ONCE
    of_groups: set[str] = set()
    is_fixed = False
    for group in after.groups:
        of_group = _changed_fields(_with_template_only(groups[group.name]), _with_template_only(group))
        is_fixed |= "size" in of_group and group.resize_mode is ResizeMode.FIXED
        of_groups |= of_group
    if is_fixed:
        return Effect.AT_RESUME
    if changed - POD_FIELDS or of_groups - POD_GROUP_FIELDS:
        return Effect.AT_ONCE
    return Effect.IN_NEW_PODS if changed or of_groups else Effect.NONE


def _with_template_only(group: ReplicaGroup) -> ReplicaGroup:
    """The hash says nothing that the template does not say."""
    return replace(group, template_hash="")


def _changed_fields(one: Any, other: Any) -> set[str]:
    return {each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)}
