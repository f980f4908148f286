"""The rules of the operator in their order of precedence: when a job changes its course, and to what.

Every reconciliation evaluates the rules from the top. The first rule that returns a transition wins: the transition is
persisted, and nothing else is done. If no rule applies, the operator creates and deletes pods, updates the status and
waits for the next change in the cluster, at most for the shortest `requeue_after`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from pliant.engine.context import Context, Transition
from pliant.engine.departures import request_drain_checkpoints
from pliant.engine.lifecycle import finish
from pliant.engine.lifecycle.suspend import resume_job, suspend_job
from pliant.engine.plans.execution import apply_edited_sizes, complete_migrations, start_next_plan
from pliant.engine.plans.master_rules import (
    complete_after_master_timeout,
    restart_idle_master,
    time_to_idle_master_restart,
    time_to_master_completion_timeout,
)
from pliant.engine.restart.requests import time_to_creation_timeout
from pliant.engine.restart.restarts import restart_replicas
from pliant.engine.sizing import resize_groups
from pliant.engine.status.rollup import emit_spec_warnings


class WhileSuspended(StrEnum):
    """Whether a rule applies to a suspended job."""

    YES = "yes"
    MASTER_ONLY = "if the job has a master"
    """The pods that a suspension deletes cannot fail the job; its master, which stays, can."""
    NO = "no"


def never(context: Context) -> None:
    """The rule depends on changes in the cluster alone, not on the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    evaluate: Callable[[Context], Transition | None]
    """Return the transition of the job if the rule applies to it."""
    condition: str
    """When the rule applies, for the documentation."""
    requeue_after: Callable[[Context], timedelta | None] = never
    """Return the time until the rule may apply although nothing in the cluster changes."""
    while_suspended: WhileSuspended = WhileSuspended.NO

    def applies_to(self, context: Context) -> bool:
        if not context.is_suspended or self.while_suspended is WhileSuspended.YES:
            return True
        return self.while_suspended is WhileSuspended.MASTER_ONLY and context.job.master is not None


RULES: Final = (
    Rule(
        name="EndOnRequest",
        evaluate=finish.end_on_request,
        condition="An annotation of the job requests its end.",
        while_suspended=WhileSuspended.YES,
    ),
    Rule(
        name="Complete",
        evaluate=finish.complete_job,
        condition="The replicas that the complete policies select have succeeded.",
        while_suspended=WhileSuspended.YES,
    ),
    Rule(
        name="Suspend", evaluate=suspend_job, condition="The spec suspends the job.", while_suspended=WhileSuspended.YES
    ),
    Rule(
        name="Resize",
        evaluate=resize_groups,
        condition="The latest size request of a group differs from its size.",
        while_suspended=WhileSuspended.YES,
    ),
    Rule(
        name="Resume",
        evaluate=resume_job,
        condition="The spec no longer suspends the job.",
        while_suspended=WhileSuspended.YES,
    ),
    Rule(
        name="Restart",
        evaluate=restart_replicas,
        condition="A replica failed, was lost with its node, was disrupted or cannot be created, and may be restarted.",
        requeue_after=time_to_creation_timeout,
        while_suspended=WhileSuspended.MASTER_ONLY,
    ),
    Rule(
        name="Fail",
        evaluate=finish.fail_job,
        condition="The replicas that the fail policies select have failed, or the job can no longer complete.",
        while_suspended=WhileSuspended.MASTER_ONLY,
    ),
    Rule(
        name="TimeOut",
        evaluate=finish.time_out_job,
        condition="The job reached its time limit, or its replicas did not all start within the start limit.",
        requeue_after=finish.time_to_job_timeout,
    ),
    Rule(
        name="CompleteMigration",
        evaluate=complete_migrations,
        condition="The replacement of a member runs or has failed.",
    ),
    Rule(
        name="ApplyEditedSize",
        evaluate=apply_edited_sizes,
        condition="A user set the size of a group whose members a master manages.",
    ),
    Rule(
        name="StartPlan",
        evaluate=start_next_plan,
        condition="A ScalePlan is pending and no other plan has pods left to create or delete.",
    ),
    Rule(
        name="CompleteAfterMasterTimeout",
        evaluate=complete_after_master_timeout,
        condition="All members have succeeded, and the master did not end the job in time.",
        requeue_after=time_to_master_completion_timeout,
    ),
    Rule(
        name="RestartIdleMaster",
        evaluate=restart_idle_master,
        condition="The master did not request members in time and does not retry by itself.",
        requeue_after=time_to_idle_master_restart,
    ),
    Rule(
        name="RequestDrainCheckpoint",
        evaluate=request_drain_checkpoints,
        condition="A replica that acknowledges checkpoint requests runs on a node that is being drained.",
    ),
    Rule(
        name="WarnAboutSpec",
        evaluate=emit_spec_warnings,
        condition="The spec has problems that have not been reported yet.",
    ),
)


def next_transition(context: Context) -> Transition | None:
    """Return the transition of the first rule that applies."""
    transitions = (rule.evaluate(context) for rule in RULES if rule.applies_to(context))
    return next((transition for transition in transitions if transition is not None), None)


def times_to_next_rule(context: Context) -> Iterator[timedelta | None]:
    """Yield the times until rules may apply although nothing in the cluster changes."""
    return (rule.requeue_after(context) for rule in RULES if rule.applies_to(context))
