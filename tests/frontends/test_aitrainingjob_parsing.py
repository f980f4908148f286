from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.spec.metadata import DEFAULT_CREATION_TIME
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, JobKey, Owner, RestartPolicy, RestartRule, RestartScope
from tests.builders import NOON, StoredJob, parse_stored
from tests.frontends.raw import CONTAINER, raw_group, raw_job


def parse(raw: dict[str, Any]) -> StoredJob:
    return parse_stored(AITrainingJobFrontend(), raw)


def sizes(job: Job) -> dict[str, int]:
    return {group.name: group.size for group in job.groups}


def test_what_is_left_out_gets_the_documented_defaults() -> None:
    job = parse(raw_job())
    [group] = job.groups
    assert (job.complete_policy, job.fail_policy, job.clean_pod_policy) == (
        EndPolicy.ALL,
        EndPolicy.ANY,
        CleanPodPolicy.ALL,
    )
    assert (group.complete_policy, group.fail_policy) == (EndPolicy.ALL, EndPolicy.ANY)
    assert group.restart_rule == RestartRule(policy=None, scope=RestartScope.ALL, limit=None)
    assert (job.frameworks[0], job.scheduler_name, job.priority_class, job.restart_exit_codes) == (
        "generic",
        None,
        None,
        frozenset(),
    )
    assert (group.size, job.is_deleting, job.state) == (1, False, None)


def test_every_field_arrives() -> None:
    trainer = raw_group(
        replicas=2,
        restartPolicy="OnNodeFailWithExitCode",
        restartScope="Pod",
        restartLimit=0,
        completePolicy="Rank0",
        failPolicy="None",
    )
    job = parse(
        raw_job(
            {"trainer": trainer},
            frameworkType="PaddlePaddle",
            priority="high",
            schedulerName="volcano",
            cleanPodPolicy="None",
            failPolicy="All",
            completePolicy="Any",
            restartingExitCode="137,128",
            timeLimit=60,
            faultTolerant=True,
        )
    )
    [group] = job.groups
    assert group.restart_rule == RestartRule(
        policy=RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE, scope=RestartScope.POD, limit=0
    )
    assert (group.complete_policy, group.fail_policy) == (EndPolicy.RANK0, EndPolicy.NONE)
    assert (job.complete_policy, job.fail_policy, job.clean_pod_policy) == (
        EndPolicy.ANY,
        EndPolicy.ALL,
        CleanPodPolicy.NONE,
    )
    assert (job.frameworks[0], job.scheduler_name, job.priority_class) == ("paddlepaddle", "volcano", "high")
    assert job.restart_exit_codes == {137, 128}


def test_a_job_knows_who_it_is() -> None:
    job = parse(raw_job())
    assert job.key == JobKey("team", "demo")
    assert job.owner == Owner(
        api_version="elasticdeeplearning.ai/v1",
        kind="AITrainingJob",
        plural="aitrainingjobs",
        name="demo",
        uid="job-uid",
    )
    assert job.created_at == NOON


def test_an_item_of_a_list_has_the_same_owner_as_the_object_itself() -> None:
    raw = raw_job()
    del raw["apiVersion"], raw["kind"]
    assert parse(raw).owner == parse(raw_job()).owner


def test_an_object_no_server_has_seen_can_be_read() -> None:
    raw = raw_job()
    raw["metadata"] = {"name": "demo"}
    job = parse(raw)
    assert (job.key, job.owner.uid, job.created_at) == (JobKey("default", "demo"), "", DEFAULT_CREATION_TIME)


def test_a_job_on_its_way_out_says_so() -> None:
    raw = raw_job()
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T13:00:00Z"
    assert parse(raw).is_deleting


def test_groups_keep_the_order_they_are_written_in() -> None:
    job = parse(raw_job({"ps": raw_group(), "Worker": raw_group(), "chief": raw_group()}))
    assert [group.name for group in job.groups] == ["ps", "Worker", "chief"]


def test_null_and_empty_fields_count_as_absent() -> None:
    worker = raw_group(replicas=None, minReplicas=None, restartPolicy="", restartScope=None, failPolicy="")
    raw = raw_job({"worker": worker}, cleanPodPolicy=None, frameworkType=None, elastic=None, restartingExitCode=None)
    raw["metadata"]["labels"] = None
    raw["status"] = None
    assert parse(raw) == parse(raw_job())


def test_unknown_fields_are_passed_over() -> None:
    assert parse(raw_job({"worker": raw_group(replicsa=4)}, colour="red")) == parse(raw_job())


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({}, 1),
        ({"replicas": 0}, 0),
        ({"replicas": 3}, 3),
        ({"minReplicas": 2}, 2),
        ({"minReplicas": 2, "maxReplicas": 5}, 2),
        ({"minReplicas": 2, "maxReplicas": 5, "replicas": 4}, 4),
        ({"maxReplicas": 5}, 1),
        ({"maxReplicas": 0}, 0),
    ],
)
def test_the_size_is_replicas_else_min_replicas_else_one(fields: dict[str, int], size: int) -> None:
    assert sizes(parse(raw_job({"worker": raw_group(**fields)}))) == {"worker": size}


@pytest.mark.parametrize(("asked", "size"), [(4, 4), (1, 2), (9, 5), (None, 3)])
def test_scaling_sets_the_size_within_the_bounds(asked: int | None, size: int) -> None:
    worker = raw_group(replicas=3, minReplicas=2, maxReplicas=5)
    assert sizes(parse(raw_job({"worker": worker}, elastic={"replicas": asked}))) == {"worker": size}


def test_scaling_means_the_only_group() -> None:
    job = parse(raw_job(elastic={"replicas": 7}))
    assert (job.scalable_group, sizes(job)) == ("worker", {"worker": 7})


def test_scaling_means_the_only_group_with_bounds() -> None:
    groups = {"ps": raw_group(replicas=2), "worker": raw_group(maxReplicas=8)}
    job = parse(raw_job(groups, elastic={"replicas": 7}))
    assert (job.scalable_group, sizes(job)) == ("worker", {"ps": 2, "worker": 7})


def test_scaling_means_the_group_it_names() -> None:
    job = parse(raw_job({"ps": raw_group(), "worker": raw_group()}, elastic={"group": "ps", "replicas": 3}))
    assert (job.scalable_group, sizes(job)) == ("ps", {"ps": 3, "worker": 1})


def test_no_group_is_elastic_where_several_could_be() -> None:
    assert parse(raw_job({"ps": raw_group(), "worker": raw_group()})).scalable_group == ""


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        ("137,128", {137, 128}),
        (" 137 , 128, ", {137, 128}),
        ("3", {3}),
        (3, {3}),
        ([137, "128"], {137, 128}),
        ([], set()),
        ("", set()),
        (None, set()),
    ],
)
def test_exit_codes_may_be_text_a_number_or_a_list(written: Any, codes: set[int]) -> None:
    assert parse(raw_job(restartingExitCode=written)).restart_exit_codes == codes


def container(name: str, *ports: tuple[str, int]) -> dict[str, Any]:
    listed = [{"containerPort": number, **({"name": port} if port else {})} for port, number in ports]
    return {"name": name, "image": "x", "ports": listed}


@pytest.mark.parametrize(
    ("containers", "counted", "ports"),
    [
        ([container("a"), container("b")], set(), []),
        ([container("a", ("", 1)), container("b", ("web", 2))], set(), [("", 1), ("web", 2)]),
        ([container("aitj-a", ("aitj-1", 1), ("web", 2))], {"aitj-a"}, [("aitj-1", 1)]),
        ([container("aitj-a", ("web", 2)), container("log", ("aitj-3", 3))], {"aitj-a"}, [("web", 2)]),
        ([container("aitj-a"), container("log", ("aitj-3", 3))], {"aitj-a"}, []),
        ([container("log", ("aitj-3", 3), ("web", 4))], set(), [("aitj-3", 3), ("web", 4)]),
        ([container("a", ("x", 1), ("y", 2), ("z", 1))], set(), [("x", 1), ("y", 2)]),
    ],
    ids=["no names", "all ports", "marked port", "no marked port", "no port", "marks need a marked container", "twice"],
)
def test_names_tell_which_containers_count_and_which_ports_are_open(
    containers: list[dict[str, Any]], counted: set[str], ports: list[tuple[str, int]]
) -> None:
    [group] = parse(raw_job({"worker": raw_group(*containers)})).groups
    assert group.main_containers == counted
    assert [(port.name, port.number) for port in group.ports] == ports


def test_null_ports_are_no_ports() -> None:
    [group] = parse(raw_job({"worker": raw_group({**CONTAINER, "ports": None})})).groups
    assert group.ports == ()


W = "spec.replicaSpecs.worker"
LONG = "a" * 55
POLICIES = "Always, OnFailure, OnNodeFail, Never, ExitCode, OnNodeFailWithExitCode"
NAMES = "must start with a letter and contain only lower-case letters, digits and '-': service names begin with it"
NEWER = "if a newer version of Pliant wrote it, run that version; to restart the job, remove status.pliant"


def job_of(**fields: Any) -> dict[str, Any]:
    return raw_job({"worker": raw_group(**fields)})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({**raw_job(), "spec": None}, "spec.replicaSpecs: is required"),
        ({**raw_job(), "spec": []}, "spec: must be a mapping, got []"),
        ({**raw_job(), "metadata": {}}, "metadata.name: is required"),
        (raw_job({}), "spec.replicaSpecs: needs at least one group"),
        (raw_job({"worker": None}), f"{W}: must be a mapping, got null"),
        (raw_job({"worker": {}}), f"{W}.template: is required"),
        (
            raw_job({"worker": {"template": {"spec": {}}}}),
            f"{W}.template.spec.containers: needs at least one container",
        ),
        (raw_job({"worker": {"template": "pod"}}), f'{W}.template: must be a mapping, got "pod"'),
        (raw_job({"worker": raw_group({"image": "x"})}), f"{W}.template.spec.containers[0].name: is required"),
        (
            raw_job({"worker": {"template": {"spec": {"containers": {"name": "a"}}}}}),
            f'{W}.template.spec.containers: must be a list, got {{"name":"a"}}',
        ),
        (
            raw_job({"worker": raw_group(CONTAINER, {"name": "b", "ports": [{"containerPort": "http"}]})}),
            f'{W}.template.spec.containers[1].ports[0].containerPort: must be an integer, got "http"',
        ),
        (job_of(restartPolicy="Sometimes"), f'{W}.restartPolicy: "Sometimes" is not one of {POLICIES}'),
        (
            job_of(restartPolicy="onfailure"),
            f'{W}.restartPolicy: "onfailure" is not one of {POLICIES}; did you mean OnFailure?',
        ),
        (job_of(restartScope=3), f"{W}.restartScope: 3 is not one of Pod, Replica, All"),
        (job_of(failPolicy="rank"), f'{W}.failPolicy: "rank" is not one of Any, Rank0, All, None; did you mean Rank0?'),
        (job_of(edlPolicy="On"), f'{W}.edlPolicy: "On" is not one of Auto, Manual, Never'),
        (raw_job(completePolicy="Rank0"), 'spec.completePolicy: "Rank0" is not one of Any, All'),
        (raw_job(cleanPodPolicy="Al"), 'spec.cleanPodPolicy: "Al" is not one of All, Running, None; did you mean All?'),
        (job_of(replicas="two"), f'{W}.replicas: must be an integer, got "two"'),
        (job_of(replicas=True), f"{W}.replicas: must be an integer, got true"),
        (job_of(replicas=-1), f"{W}.replicas: must be 0 or more, got -1"),
        (job_of(restartLimit=-1), f"{W}.restartLimit: must be 0 or more, got -1"),
        (job_of(minReplicas=3, maxReplicas=2), f"{W}.minReplicas: must be at most maxReplicas (2), got 3"),
        (job_of(minReplicas=3, replicas=2), f"{W}.replicas: must be at least minReplicas (3), got 2"),
        (job_of(maxReplicas=3, replicas=4), f"{W}.replicas: must be at most maxReplicas (3), got 4"),
        (raw_job(faultTolerant="yes"), 'spec.faultTolerant: must be true or false, got "yes"'),
        (raw_job(schedulerName=5), "spec.schedulerName: must be a string, got 5"),
        (raw_job(timeLimit="1h"), 'spec.timeLimit: must be an integer, got "1h"'),
        (
            raw_job(restartingExitCode="137,x"),
            'spec.restartingExitCode: must list exit codes such as "137,128", got "137,x"',
        ),
        (
            raw_job(restartingExitCode={"codes": [1]}),
            'spec.restartingExitCode: must list exit codes such as "137,128", got {"codes":[1]}',
        ),
        (raw_job(restartingExitCode=[-1]), 'spec.restartingExitCode: must list exit codes such as "137,128", got [-1]'),
        (raw_job(restartingExitCode=256), 'spec.restartingExitCode: must list exit codes such as "137,128", got 256'),
        (raw_job(elastic={"group": "wrker"}), 'spec.elastic.group: "wrker" is not one of worker; did you mean worker?'),
        (
            raw_job({"ps": raw_group(), "worker": raw_group()}, elastic={"replicas": 2}),
            "spec.elastic.group: is required because several groups can be scaled: ps, worker",
        ),
        (raw_job(elastic={"replicas": -2}), "spec.elastic.replicas: must be 0 or more, got -2"),
        (
            raw_job({"a": raw_group(completePolicy="None"), "b": raw_group(completePolicy="None")}),
            "spec.replicaSpecs: at least one group must have a completePolicy other than None",
        ),
        (
            raw_job({"worker": raw_group(), "Worker": raw_group()}),
            'spec.replicaSpecs.Worker: its pods would have the same names as those of "worker"',
        ),
        (
            raw_job({"a/b": raw_group(), "a-b": raw_group()}),
            'spec.replicaSpecs.a-b: its pods would have the same names as those of "a/b"',
        ),
        (
            raw_job({"my_worker": raw_group()}),
            "spec.replicaSpecs.my_worker: the name of a group may contain only letters, digits and '-'",
        ),
        (raw_job(name="1st"), f'metadata.name: "1st" {NAMES}'),
        (
            raw_job({"worker": raw_group(replicas=11)}, name=LONG[:-1]),
            f'metadata.name: is too long: the service name "{LONG[:-1]}-worker-10" has 64 characters (maximum: 63)',
        ),
        (
            raw_job({"worker": raw_group(maxReplicas=11)}, name=LONG[:-1]),
            f'metadata.name: is too long: the service name "{LONG[:-1]}-worker-10" has 64 characters (maximum: 63)',
        ),
        (
            raw_job(status={"pliant": {"phase": "Levitating", "started_at": "2026-01-01T12:00:00Z"}}),
            f"status.pliant: cannot be decoded (Invalid enum value 'Levitating' - at `$.phase`): {NEWER}",
        ),
    ],
)
def test_what_cannot_be_used_is_named(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse(raw)
    assert str(refusal.value) == message


def test_the_longest_name_that_fits_is_taken() -> None:
    assert parse(raw_job({"worker": raw_group(replicas=10)}, name=LONG[:-1])).key.name == LONG[:-1]


def test_a_time_that_is_none_is_named() -> None:
    raw = raw_job()
    raw["metadata"]["creationTimestamp"] = "yesterday"
    with pytest.raises(InvalidSpec, match=r"metadata\.creationTimestamp: must be a time such as"):
        parse(raw)


def test_a_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse(raw_job(timeLimit="x" * 500))
    assert len(str(refusal.value)) < 120


def test_times_keep_their_zone() -> None:
    raw = raw_job()
    raw["metadata"]["creationTimestamp"] = "2026-01-01T14:00:00+02:00"
    assert parse(raw).created_at == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_labels_that_put_a_job_into_a_queue_are_not_for_its_pods() -> None:
    raw = raw_job()
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "night", "team": "vision"}
    assert AITrainingJobFrontend().parse(raw).labels == {"team": "vision"}
