from __future__ import annotations

from typing import Any

import pytest

from pliant.frontends.elasticjob.master import DLROVER_MASTER, PLIANT_MASTER
from pliant.model.job import CleanPodPolicy, EndPolicy, RestartPolicy, RestartScope
from pliant.model.labels import replica_pod_name, replica_service_name
from pliant.model.state import JobPhase, SizeRequester
from tests.frontends.elasticjob import group_of, main_of, master, parsed, replicas, role

PS = "ParameterServerStrategy"
WORDS = ["--namespace", "team", "--job_name", "demo", "--port", "50001"]


def test_a_job_is_its_master_and_those_whom_it_looks_after() -> None:
    job = parsed(replicaSpecs=replicas(worker=role(2)))
    assert [(each.name, each.size, each.is_master_managed, each.is_master) for each in job.groups] == [
        ("dlrover-master", 1, False, True),
        ("worker", 2, True, False),
    ]
    assert job.master is not None
    assert job.master.group == "dlrover-master"
    assert job.scalable_group == "worker"


def test_masters_and_members_have_the_names_that_programs_for_this_kind_know() -> None:
    job = parsed()
    assert replica_pod_name(job, "dlrover-master", 0) == "elasticjob-demo-dlrover-master-0"
    assert replica_service_name(job, "dlrover-master", 0) == "elasticjob-demo-dlrover-master"
    assert replica_pod_name(job, "worker", 3) == replica_service_name(job, "worker", 3) == "demo-edljob-worker-3"


def test_the_end_of_the_master_is_the_end_of_the_job_and_members_have_no_say() -> None:
    job = parsed()
    own, workers = group_of(job, "dlrover-master"), group_of(job)
    assert (own.complete_policy, own.fail_policy) == (EndPolicy.ALL, EndPolicy.ANY)
    assert (workers.complete_policy, workers.fail_policy) == (EndPolicy.NONE, EndPolicy.NONE)
    assert own.restart_rule.permanent_exit_codes == {1}
    assert workers.restart_rule.policy is None


@pytest.mark.parametrize(("written", "limit", "counts"), [(None, 3, False), (0, 0, True), (1, 1, True)])
def test_a_master_is_replaced_as_often_as_its_author_says(written: int | None, limit: int, counts: bool) -> None:
    rule = group_of(parsed(replicaSpecs=replicas(worker=role(), dlrover_master=master(written))), "dlrover-master")
    assert (rule.restart_rule.policy, rule.restart_rule.scope) == (RestartPolicy.ON_FAILURE, RestartScope.POD)
    assert (rule.restart_rule.limit, rule.restart_rule.counts_disruptions) == (limit, counts)


def test_sizes_that_nobody_gives_are_nobodys_wish() -> None:
    job = parsed(replicaSpecs=replicas(worker=role(), evaluator=role(0)))
    assert group_of(job).requested_sizes == {}
    assert group_of(job, "evaluator").requested_sizes == {SizeRequester.SPEC: 0}


def test_bounds_hold_whoever_asks() -> None:
    workers = group_of(parsed(replicaSpecs=replicas(worker=role(2, minReplicas=1, maxReplicas=4))))
    assert (workers.min_size, workers.size, workers.max_size, workers.is_elastic) == (1, 2, 4, True)


def test_with_parameter_servers_there_may_be_chiefs_and_evaluators_like_workers() -> None:
    job = parsed(distributionStrategy="", replicaSpecs=replicas(worker=role(2), ps=role(1)))
    assert {each.name for each in job.groups} == {"dlrover-master", "worker", "ps", "chief", "evaluator"}
    assert group_of(job, "chief").template == group_of(job).template
    assert (group_of(job, "chief").size, group_of(job, "chief").requested_sizes) == (0, {})
    assert [port.number for port in group_of(job, "ps").ports] == [2222]
    assert [port.number for port in group_of(job, "chief").ports] == [3333]


def test_without_an_image_and_a_command_the_master_is_ours() -> None:
    for each in ({}, {"dlrover_master": master()}, {"dlrover_master": {"restartCount": 1}}):
        job = parsed(replicaSpecs=replicas(worker=role(), **each))
        first = main_of(job, "dlrover-master")
        assert job.master is PLIANT_MASTER
        assert "image" not in first
        assert "command" not in first
        assert first["args"] == WORDS
        assert first["resources"] == {"requests": {"cpu": "100m", "memory": "256Mi"}}


def test_with_an_image_alone_it_is_dlrovers() -> None:
    job = parsed(replicaSpecs=replicas(worker=role(), dlrover_master=master(image="dlrover:0.6.1")))
    assert job.master is DLROVER_MASTER
    first = main_of(job, "dlrover-master")
    assert first["command"] == ["python", "-m", "dlrover.python.master.main", "--platform", "pyk8s", *WORDS]
    assert first["resources"]["limits"] == {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}


@pytest.mark.parametrize(
    ("container", "is_ours"),
    [
        ({"image": "x", "command": ["run", "it"]}, False),
        ({"command": ["sleep", "60"]}, False),
        ({"image": "x", "args": ["--mine"]}, False),
        ({"image": "x", "command": ["python", "-m", "pliant.master"]}, True),
        ({"command": ["sh", "-c", "exec python -m pliant.master"]}, True),
    ],
)
def test_a_command_is_left_as_it_is_written(container: dict[str, Any], is_ours: bool) -> None:
    job = parsed(
        annotations={"service_type": "http"}, replicaSpecs=replicas(worker=role(), dlrover_master=master(**container))
    )
    assert job.master is (PLIANT_MASTER if is_ours else DLROVER_MASTER)
    assert {key: value for key, value in main_of(job, "dlrover-master").items() if key in container} == container


@pytest.mark.parametrize(
    ("written", "meant"), [("Allreduce", "AllreduceStrategy"), ("ParameterServer", "ParameterServerStrategy")]
)
def test_strategies_have_the_names_of_old_examples(written: str, meant: str) -> None:
    job = parsed(distributionStrategy=written, replicaSpecs=replicas(worker=role(1), ps=role(1)))
    assert job.framework_options["strategy"] == meant


def test_annotations_are_arguments_each_a_word_of_its_own() -> None:
    asked = {"pending_timeout": "600; reboot", "unknown": "x", "pliant.master/tick": "5", "service_type": "http"}
    job = parsed(annotations=asked)
    added = ["--pending_timeout", "600; reboot", "--service_type", "http", "--tick", "5"]
    assert main_of(job, "dlrover-master")["args"] == [*WORDS, *added]
    assert job.framework_options["service_type"] == "http"


def test_the_masters_pod_bears_what_the_job_bears_but_what_kubectl_remembers() -> None:
    own = master()
    own["template"]["metadata"] = {"annotations": {"a": "template", "b": "template"}}
    kept = {"a": "job", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    job = parsed(annotations=kept, labels={"team": "vision"}, replicaSpecs=replicas(worker=role(), dlrover_master=own))
    template = group_of(job, "dlrover-master").template
    assert template["metadata"]["annotations"] == {"a": "job", "b": "template"}
    assert job.labels == {"team": "vision"}


def test_masters_learn_their_own_address() -> None:
    [first, *_] = main_of(parsed(), "dlrover-master")["env"]
    assert first == {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def test_a_brain_is_told_to_the_master_only_if_it_is_to_be_asked() -> None:
    for mode, expected in (("cluster", ["brain:1"]), ("single-job", [])):
        env = main_of(parsed(optimizeMode=mode, brainService="brain:1"), "dlrover-master")["env"]
        assert [each["value"] for each in env if each["name"] == "DLROVER_BRAIN_SERVICE_ADDR"] == expected


def test_the_container_that_counts_comes_first_and_says_what_it_asks_for() -> None:
    side = {"name": "side", "image": "x"}
    main = {"name": "main", "image": "y", "resources": {"limits": {"memory": "1Gi"}}}
    job = parsed(replicaSpecs=replicas(worker=role(pod={"containers": [side, main]})))
    first, second = group_of(job).template["spec"]["containers"]
    assert (first["name"], second) == ("main", side)
    assert first["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "0", "memory": "1Gi"}}
    assert group_of(job).main_containers == {"main"}
    assert job.warnings == ()


def test_of_several_containers_without_a_main_one_the_first_counts_and_the_author_is_told() -> None:
    both = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    job = parsed(replicaSpecs=replicas(worker=role(pod={"containers": both})))
    assert group_of(job).main_containers == {"a"}
    [said] = job.warnings
    assert said == ("spec.replicaSpecs.worker.template: no container is named main; a is used as the main container")


def test_an_author_may_set_what_every_member_is_told() -> None:
    pod = {"containers": [{"name": "main", "image": "x", "env": [{"name": "POD_IP", "value": "10.0.0.1"}]}]}
    env = main_of(parsed(replicaSpecs=replicas(worker=role(pod=pod))))["env"]
    assert [each["name"] for each in env] == ["NODE_IP", "POD_NAME", "POD_IP"]
    assert env[-1]["value"] == "10.0.0.1"


def test_whatever_a_template_says_of_restarts_a_member_is_made_again_by_its_master_alone() -> None:
    job = parsed(replicaSpecs=replicas(worker=role(pod={"restartPolicy": "Always"})))
    assert group_of(job).template["spec"]["restartPolicy"] == "Never"


def test_a_priority_is_a_class_of_pods() -> None:
    job = parsed(replicaSpecs=replicas(worker=role(priority="high"), evaluator=role(priority="0.5")))
    assert (group_of(job).priority_class, group_of(job, "evaluator").priority_class) == ("high", None)
    assert [each.partition(":")[0] for each in job.warnings] == ["spec.replicaSpecs.evaluator.priority"]


def test_a_gang_holds_members_and_never_the_master_that_calls_them() -> None:
    gang = {"scheduling.x-k8s.io/pod-group": "all"}
    named = {"scheduling.k8s.io/group-name": "all", "volcano.sh/queue-name": "q"}
    job = parsed(labels={**gang, "kueue.x-k8s.io/queue-name": "q"}, annotations=named)
    assert group_of(job).labels == {**gang, "kueue.x-k8s.io/queue-name": "q"}
    assert group_of(job).template["metadata"]["annotations"] == named
    assert job.labels == {"kueue.x-k8s.io/queue-name": "q"}
    assert group_of(job, "dlrover-master").template["metadata"]["annotations"] == {"volcano.sh/queue-name": "q"}


def test_a_job_rests_by_either_word() -> None:
    assert parsed(suspend=True).is_suspended
    assert parsed(suspended=True).is_suspended
    assert not parsed().is_suspended


@pytest.mark.parametrize(
    ("word", "policy"), [("", CleanPodPolicy.ALL), ("running", CleanPodPolicy.RUNNING), ("None", CleanPodPolicy.NONE)]
)
def test_what_is_left_at_the_end_is_for_an_annotation_to_say(word: str, policy: CleanPodPolicy) -> None:
    assert parsed(annotations={"pliant/clean": word} if word else None).clean_pod_policy is policy


def test_what_is_read_in_vain_is_said_once() -> None:
    job = parsed(
        distributionStrategy=PS,
        envs={"A": {"name": "A", "value": "1"}},
        replicaSpecs=replicas(worker=role(5, maxReplicas=4, BatchScheduler="volcano")),
    )
    assert job.warnings == (
        "spec.replicaSpecs.worker.replicas (5) exceeds maxReplicas and is limited to 4",
        "spec.replicaSpecs.ps: is missing; without parameter servers, set AllreduceStrategy",
        "spec.replicaSpecs.worker.BatchScheduler is ignored: set schedulerName in the template",
        "spec.envs is ignored: set env in the templates",
    )


def test_a_master_of_somebody_else_may_know_another_strategy() -> None:
    own = replicas(worker=role(), dlrover_master=master(image="x", command=["run"]))
    assert (
        parsed(distributionStrategy="CustomStrategy", replicaSpecs=own).framework_options["strategy"]
        == "CustomStrategy"
    )


@pytest.mark.parametrize(("word", "phase"), [("Succeeded", JobPhase.SUCCEED), ("Failed", JobPhase.FAILED)])
def test_what_ended_under_another_operator_stays_so(word: str, phase: JobPhase) -> None:
    job = parsed(status={"phase": word, "status": {"startTime": "2026-01-01T12:00:00Z", "conditions": []}})
    assert job.state is not None
    assert job.state.phase is phase


def test_what_began_under_another_operator_goes_on() -> None:
    job = parsed(status={"phase": "Running", "status": {"startTime": "2026-01-01T12:00:00Z"}})
    assert job.state is not None
    assert job.state.phase is JobPhase.PENDING
    assert parsed(status={"phase": "Created"}).state is None
    assert parsed(status={"status": {"startTime": 5}}).state is None
