"""The table of rules: its order, what holds while a job is suspended, and who wakes the operator."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.engine.context import Context
from pliant.engine.rules import RULES, Rule, WhileSuspended, never
from pliant.model.job import Job
from pliant.model.observed import Observed, ObservedPod, ObservedService, PodPhase, StuckContainer
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON, PlainFramework, decide_stored, make_group, make_job, make_pod, restarting, seeing
from tests.engine.mastered import MASTER, MASTER_POD, elastic_job
from tests.engine.rulings import RUNNING, decided, event_of, exited, intent_of, remembering, update_of, wait_of

MASTERED, PLAIN = elastic_job(), make_job()


def context_of(job: Job, state: EngineState) -> Context:
    return Context(spec=job, before=state, state=state, observed=Observed(), config=OperatorConfig(), now=NOON)


def test_names_are_unique_and_conditions_are_sentences() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.condition.endswith(".") and rule.condition[0].isupper() for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_every_rule_applies_to_an_active_job(rule: Rule) -> None:
    assert rule.applies_to(context_of(PLAIN, RUNNING))
    assert rule.applies_to(context_of(MASTERED, RUNNING))


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_a_suspended_job_obeys_the_rules_that_say_so(rule: Rule) -> None:
    suspended = remembering(JobPhase.SUSPENDED)
    assert rule.applies_to(context_of(PLAIN, suspended)) is (rule.while_suspended is WhileSuspended.YES)
    assert rule.applies_to(context_of(MASTERED, suspended)) is (rule.while_suspended is not WhileSuspended.NO)


def test_of_two_rules_that_apply_the_first_wins() -> None:
    group = make_group(restart=restarting(limit=1))
    job = make_job(group, state=RUNNING, time_limit=timedelta(hours=1))
    failed = seeing(make_pod(0), make_pod(1, PodPhase.FAILED, code=1))
    decision = decided(job, failed, NOON + timedelta(hours=2))
    assert event_of(decision).reason == "Restarting"
    assert intent_of(decision).message.details == (exited("worker-1"),)


def test_rules_without_a_timer_never_wake_the_operator() -> None:
    timers = [rule.name for rule in RULES if rule.requeue_after is not never]
    assert timers == ["Restart", "TimeOut", "CompleteAfterMasterTimeout", "RestartIdleMaster"]


def test_a_master_that_cannot_start_while_its_job_is_suspended_is_looked_at_in_time() -> None:
    state = remembering(JobPhase.SUSPENDED)
    stuck = ObservedPod(
        name=MASTER_POD,
        uid="m",
        group=MASTER,
        index=0,
        attempt=0,
        phase=PodPhase.SCHEDULED,
        node="n1",
        stuck_container=StuckContainer(container="trainer", reason="ErrImagePull", since=NOON),
        start_problem="ErrImagePull",
    )
    service = ObservedService(name="elasticjob-demo-dlrover-master", uid="s")
    job = replace(MASTERED, state=state, is_suspended=True)
    decision = decide_stored(
        job, Observed(pods=(stuck,), services={service.name: service}), PlainFramework(), NOON + timedelta(minutes=5)
    )
    assert wait_of(decision) == timedelta(minutes=10)


def test_a_new_spec_is_observed_in_the_state() -> None:
    pods = seeing(make_pod(0), make_pod(1))
    before = update_of(decided(make_job(state=RUNNING), pods, NOON + timedelta(seconds=5)))
    assert before is not None
    edited = make_job(state=before, generation=7)
    after = update_of(decided(edited, pods, NOON + timedelta(seconds=10)))
    assert after is not None
    assert after.observed_generation == 7
    assert update_of(decided(replace(edited, state=after), pods, NOON + timedelta(seconds=15))) is None
