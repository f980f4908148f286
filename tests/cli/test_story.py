"""What `pliant why` makes of a job, its pods, its nodes and what was told about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from pliant.cli.cluster.job_context import JobContext, JobEvent
from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.explain.failure_hints import explain_exit
from pliant.cli.explain.job_explanation import JobEvidence, JobExplanation, explain_job
from pliant.cli.explain.render import render_explanation
from pliant.cli.output.style import TerminalStyle
from pliant.embedded.object_views import PodView
from pliant.frontends import FRONTENDS
from pliant.frontends.status.engine_state import dump_state
from pliant.kube.objects import Condition, Node, NodeStatus, ObjectMeta, Pod
from pliant.model.observed import PodExit
from pliant.model.state import (
    EngineState,
    GroupState,
    JobPhase,
    ReplicaFailure,
    RestartCause,
    SizeAdvice,
    SizeRequest,
    SizeRequester,
    TimelineEntry,
)
from tests.builders import NOON, StoredJob, make_group, make_job, restarting, saying
from tests.cli.test_board import pod
from tests.frontends.paddle_batch import parsed, role

[AITJ, *_] = FRONTENDS.values()
LATER = NOON + timedelta(minutes=5)


def one(job: StoredJob | None, problem: str = "") -> JobObject:
    raw = {"metadata": {"name": "demo", "namespace": "default", "uid": "job-uid"}}
    return JobObject(frontend=AITJ, raw=raw, job=job, state=job.state if job else None, parse_error=problem)


def told_of(job: StoredJob | None, *pods: Pod, problem: str = "", **around: Any) -> JobExplanation:
    return explain_job(JobEvidence(job_object=one(job, problem), context=JobContext(pods=pods, **around), now=LATER))


def state(phase: JobPhase, message: str = "", **fields: Any) -> EngineState:
    return EngineState(phase=phase, message=saying(message), started_at=NOON, **fields)


def sentences(told: JobExplanation) -> str:
    return " ".join(each.text for each in told.reasons)


def test_a_failure_names_its_first_cause_and_what_a_signal_means() -> None:
    cause = ReplicaFailure(replica="worker-1", exit_code=137, at=NOON)
    job = make_job(state=state(JobPhase.FAILED, "worker-1 was killed", ended_at=NOON, root_cause=cause))
    told = told_of(job, pod(0), pod(1, phase="Failed", code=137))
    assert told.headline == "demo failed 5m ago, after 0.0s: worker-1 was killed"
    assert "Root cause: worker-1 was killed by SIGKILL (exit code 137) (pod demo-worker-1" in sentences(told)
    assert "The kernel killed it for lack of memory" in sentences(told)
    assert any("increase the memory in resources.limits" in each for each in told.remedies)


def test_when_the_pods_are_gone_that_is_said() -> None:
    told = told_of(make_job(state=state(JobPhase.FAILED, "x", ended_at=NOON)))
    assert "Its pods and their logs are deleted (cleanPodPolicy All)" in sentences(told)
    assert "keep pods and logs: cleanPodPolicy: Running" in told.remedies


def test_what_keeps_pods_is_told_in_the_words_of_the_kind() -> None:
    ended = {"pliant": dump_state(state(JobPhase.FAILED, "x", ended_at=NOON))}
    told = told_of(parsed(cleanPodPolicy="Always", worker=role(), status=ended))
    assert "keep pods and logs: cleanPodPolicy: Never" in told.remedies


def test_a_job_that_nobody_looks_after_says_so() -> None:
    told = told_of(make_job())
    assert "No operator reconciles it" in sentences(told)
    assert any("pliant up" in each for each in told.remedies)


def test_a_job_left_to_others_says_to_whom() -> None:
    told = told_of(make_job(managed_by="kueue.x-k8s.io/multikueue"))
    assert "is kueue.x-k8s.io/multikueue: this operator ignores" in sentences(told)


def test_a_job_that_cannot_be_understood_names_the_field() -> None:
    told = told_of(None, problem="spec.replicaSpecs: needs at least one group")
    assert "has an invalid spec" in told.headline
    assert told.remedies == ["fix spec.replicaSpecs: kubectl edit aitrainingjobs demo"]


def test_growing_waits_are_told() -> None:
    memory = GroupState(
        attempt=4,
        restart_streak=5,
        last_restart_at=LATER,
        restarts_by_cause={RestartCause.APP: 4},
        index_min_attempts={0: 4, 1: 4},
    )
    group = make_group(restart=restarting(limit=9))
    told = told_of(make_job(group, state=state(JobPhase.RESTARTING, "again", groups={"worker": memory})))
    assert "worker-0, worker-1: restarts in 8.0s; the back-off grows while its group keeps failing" in sentences(told)
    assert told.details == ["worker has used 4 of 9 restarts (app 4), 5 left."]


def test_faulty_nodes_and_nodes_kept_off_are_told() -> None:
    sick = Node(
        metadata=ObjectMeta(name="node-1"),
        status=NodeStatus(conditions=(Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown"),)),
    )
    job = make_job(state=state(JobPhase.RUNNING, "fine", avoided_nodes=("node-1",)))
    told = told_of(job, pod(0), pod(1), nodes={"node-1": sick})
    assert "Node node-1 is not ready (NodeStatusUnknown); it runs 0 replicas of this job." in sentences(told)
    assert "New pods avoid node-1" in sentences(told)


def test_nodes_that_waiting_pods_exclude_are_told() -> None:
    waiting = pod(0, phase="Pending", unschedulable="0/1 nodes are available.")
    waiting.metadata.annotations["pliant/excluded-nodes"] = "node-1,node-2"
    told = told_of(make_job(state=state(JobPhase.PENDING, "waiting")), waiting)
    assert "Pods that wait for a node exclude node-1, node-2 until the device fault there is over." in sentences(told)


def test_what_is_free_is_told_to_who_waits_for_room() -> None:
    asked = [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    group = replace(make_group(size=1), template={"spec": {"containers": asked}})
    job = make_job(group, state=state(JobPhase.PENDING, "worker-0: Unschedulable"))
    machine = Node(
        metadata=ObjectMeta(name="node-0"), status=NodeStatus(allocatable={"nvidia.com/gpu": "1", "pods": "9"})
    )
    tenants = {
        phase: msgspec.convert(
            {"metadata": {}, "spec": {"nodeName": "node-0", "containers": asked}, "status": {"phase": phase}}, PodView
        )
        for phase in ("Running", "Succeeded")
    }
    waiting = pod(0, phase="Pending", unschedulable="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    told = told_of(job, waiting, nodes={"node-0": machine}, cluster_pods=(tenants["Running"],))
    assert "It requests 1 nvidia.com/gpu, but no node has more than 0 free." in sentences(told)
    told = told_of(job, waiting, nodes={"node-0": machine}, cluster_pods=(tenants["Succeeded"],))
    assert "free" not in sentences(told)


def test_sizes_say_who_asked_and_what_held_them_back() -> None:
    requests = {
        SizeRequester.SPEC: SizeRequest(size=2, at=NOON),
        SizeRequester.SCALE: SizeRequest(size=9, at=NOON + timedelta(minutes=1)),
    }
    group = make_group(size=4, min_size=1, max_size=4, is_elastic=True)
    memory = GroupState(applied_size=4, size_requests=requests)
    told = told_of(make_job(group, state=state(JobPhase.RUNNING, "fine", groups={"worker": memory})))
    assert told.details == [
        "worker has size 4: the scale subresource requested 9 4m ago; before that the spec requested 2; bounds 1–4."
    ]


def test_sizes_say_what_the_autoscaler_asked_for_and_thinks() -> None:
    requests = {
        SizeRequester.SPEC: SizeRequest(size=2, at=NOON),
        SizeRequester.AUTOSCALER: SizeRequest(size=4, at=NOON + timedelta(minutes=1), message="2 more fit"),
    }
    advice = SizeAdvice(size=4, reason="InsufficientCapacity", message="no node has 5 CPU free", at=NOON)
    group = make_group(size=2, min_size=2, max_size=6, is_elastic=True, is_autoscaled=True)
    memory = GroupState(applied_size=4, size_requests=requests, advice=advice)
    told = told_of(make_job(group, state=state(JobPhase.RUNNING, "fine", groups={"worker": memory})))
    asked = "the autoscaler requested 4 4m ago (2 more fit)"
    assert told.details == [
        f"worker has size 4: {asked}; before that the spec requested 2; bounds 2–6.",
        "worker: the autoscaler recommends this size: no node has 5 CPU free (InsufficientCapacity).",
    ]


def test_a_size_that_nobody_can_change_says_why() -> None:
    group = make_group(
        size=2, min_size=2, max_size=6, is_elastic=True, fixed_size_reason="servers count their trainers"
    )
    told = told_of(
        make_job(group, state=state(JobPhase.RUNNING, "fine", groups={"worker": GroupState(applied_size=2)}))
    )
    assert told.details == ["worker: its size is fixed: servers count their trainers."]


def test_history_runs_backwards_and_holds_warnings_about_pods() -> None:
    timeline = (TimelineEntry(at=NOON, reason="Pending", message=saying("job accepted")),)
    event = JobEvent(
        at=NOON + timedelta(minutes=2),
        is_warning=True,
        reason="FailedMount",
        involved_object="Pod demo-worker-0",
        message="no such volume",
        count=3,
    )
    told = told_of(make_job(state=state(JobPhase.PENDING, timeline=timeline)), events=(event,))
    assert told.timeline == [
        ("3m ago", "FailedMount", "demo-worker-0: no such volume (×3)"),
        ("5m ago", "Pending", "job accepted"),
    ]


@pytest.mark.parametrize(
    ("phase", "advice"),
    [
        (JobPhase.TIMEOUT, "spec.timeLimit"),
        (JobPhase.NODE_FAIL, "restartPolicy OnNodeFail"),
        (JobPhase.PREEMPTED, "priority"),
        (JobPhase.SUSPENDED, "pliant resume demo"),
    ],
)
def test_every_end_has_its_advice(phase: JobPhase, advice: str) -> None:
    assert advice in " ".join(told_of(make_job(state=state(phase, "x"))).remedies)


def test_a_story_fits_the_terminal() -> None:
    job = make_job(state=state(JobPhase.FAILED, "a message that goes on for quite a while " * 5, ended_at=NOON))
    text = render_explanation(told_of(job, pod(1, phase="Failed", code=1)), TerminalStyle(), 60)
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (PodExit(code=1), "an uncaught exception"),
        (PodExit(code=127), "did not find the program"),
        (PodExit(code=42), "42 is specific to the program"),
        (PodExit(code=139), "mismatched libraries"),
        (PodExit(code=135), "/dev/shm"),
        (PodExit(code=1, reason="OOMKilled"), "more memory than its limit"),
    ],
)
def test_exit_codes_have_meanings(end: PodExit, words: str) -> None:
    assert words in explain_exit(end)
    assert explain_exit(None) == explain_exit(PodExit()) == explain_exit(PodExit(code=250)) == ""


def test_a_broken_object_is_found_all_the_same() -> None:
    raw = {"metadata": {"name": "x", "namespace": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    broken = parse_job_object(AITJ, {**raw, "spec": {}})
    assert broken.phase == "Invalid"
    assert broken.message.startswith("spec.replicaSpecs")
    assert replace(broken, parse_error="").phase == "Pending"


def test_a_first_cause_whose_pod_is_gone_is_told_with_its_last_words() -> None:
    cause = ReplicaFailure(
        replica="worker-1", exit_code=1, node="n1", container="main", at=NOON, message="a\nRuntimeError: b"
    )
    spent = {JobPhase.PENDING: 2.0, JobPhase.RUNNING: 61.0}
    job = make_job(state=state(JobPhase.FAILED, "x", ended_at=NOON, root_cause=cause, phase_seconds=spent))
    told = told_of(job)
    assert told.reasons[0].text == (
        "Root cause: worker-1 exited with code 1 (on n1, container main, attempt 0, 5m ago)."
    )
    assert told.reasons[0].log_lines == ["a", "RuntimeError: b"]
    assert "Time: queued 2.0s, running 1m01s; total 1m03s." in told.details


def test_while_a_job_goes_on_the_cause_of_its_latest_restart_is_told() -> None:
    cause = ReplicaFailure(replica="worker-0", cause=RestartCause.NODE, node="n1", reason="is gone", at=NOON)
    told = told_of(make_job(state=state(JobPhase.RUNNING, root_cause=cause)), pod(0), pod(1))
    assert told.reasons[0].text.startswith("Latest restart: worker-0 was lost: node n1 is gone (on n1")
