"""What is understood of a PaddleJob of paddlepaddle.org, however it is spelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.job import PaddleJobFrontend
from pliant.frontends.status.engine_state import dump_state
from pliant.model.job import EndPolicy, ResizeMode, RestartPolicy, RestartScope
from pliant.model.state import EngineState, GroupState, JobPhase, SizeRequester
from tests.builders import NOON
from tests.frontends.paddle import container_of, group_of, parsed, pod_of, raw_job, variables_of


@pytest.mark.parametrize("least", ["min-instance", "min_instance", "minInstance", "MinInstance"])
@pytest.mark.parametrize("most", ["max-instance", "max_instance", "maxInstance"])
def test_words_may_be_joined_in_any_way(least: str, most: str) -> None:
    trainers = group_of(PaddleJobFrontend().parse(_of({"trainer": {"entrypoint": "x", least: 2, most: 6}})))
    assert (trainers.size, trainers.min_size, trainers.max_size) == (2, 2, 6)


@pytest.mark.parametrize(
    "spelled",
    [
        {"port": "7200", "ports_num": "2", "ports_num_for_sparse": "0"},
        {"port": 7200, "port_num": 2, "port_num_for_sparse": 0},
        {"port": 7200.0, "portsNum": 2, "ports-num-for-sparse": 0},
    ],
)
def test_numbers_may_be_text_and_ports_have_two_names(spelled: dict[str, Any]) -> None:
    ports = container_of(parsed(spelled))["ports"]
    assert ports == [{"name": "jobport-7200", "containerPort": 7200}, {"name": "jobport-7201", "containerPort": 7201}]


@pytest.mark.parametrize(
    "spelled", [{"host_network": True}, {"hostNetwork": "true"}, {"HostNetwork": 1}, {"host-network": "True"}]
)
def test_the_network_of_nodes_is_asked_for_in_several_ways(spelled: dict[str, Any]) -> None:
    assert pod_of(parsed(spelled))["hostNetwork"] is True


@pytest.mark.parametrize("nothing", [None, 0, "", "0", "null"])
def test_what_is_nothing_gives_way_to_defaults(nothing: Any) -> None:
    raw = _of({"trainer": {"entrypoint": "x", "min-instance": 2, "max-instance": nothing}, "port": nothing})
    raw["spec"] |= {"schedulerName": None, "podGroupName": "null", "imagePullSecrets": None, "pserver": None}
    job = PaddleJobFrontend().parse(raw)
    assert [group.name for group in job.groups] == ["trainer"]
    assert not group_of(job).is_elastic
    assert container_of(job)["ports"][0]["containerPort"] == 7164
    assert "schedulerName" not in pod_of(job)
    assert job.warnings == ()


def test_defaults_are_always_there() -> None:
    job = parsed(trainer={"min-instance": 0})
    assert container_of(job)["image"] == "paddlepaddle/paddlecloud-job"
    assert [port["name"] for port in container_of(job)["ports"]] == ["jobport-7164", "jobport-7165"]
    assert variables_of(job)["PADDLE_INIT_NUM_PASSES"] == "1"
    assert group_of(job).size == 1


def test_trainers_move_between_bounds_that_leave_room() -> None:
    trainers = group_of(parsed(trainer={"max-instance": 6}, pserver={"min-instance": 3, "max-instance": 9}))
    assert (trainers.is_elastic, trainers.is_autoscaled, trainers.resize_mode) == (True, True, ResizeMode.JOIN)
    assert trainers.requested_sizes == {}
    servers = group_of(parsed(pserver={"min-instance": 3, "max-instance": 9}), "pserver")
    assert (servers.size, servers.is_elastic, servers.is_autoscaled) == (3, False, False)


def test_a_lower_bound_above_the_upper_one_stands_and_is_warned_of() -> None:
    job = parsed(trainer={"min-instance": 3, "max-instance": 2})
    assert (group_of(job).size, group_of(job).is_elastic) == (3, False)
    assert job.warnings == ("spec.trainer.min-instance (3) exceeds max-instance (2): the size is fixed at 3",)


def test_a_job_that_does_not_tolerate_faults_keeps_its_size_and_says_why() -> None:
    trainers = group_of(parsed({"fault_tolerant": False}, trainer={"max-instance": 6}))
    assert (trainers.is_elastic, trainers.resize_mode) == (True, ResizeMode.FIXED)
    assert trainers.fixed_size_reason.startswith(
        "fault_tolerant is false: the number of trainers is fixed at the start"
    )
    said = group_of(
        parsed({"fault_tolerant": False}, trainer={"max-instance": 6}, annotations={"pliant/resize": "restart"})
    )
    assert (said.resize_mode, said.fixed_size_reason) == (ResizeMode.RESTART, "")


def test_a_size_that_was_scaled_to_is_a_request() -> None:
    trainers = group_of(parsed(trainer={"max-instance": 6, "instances": 4}))
    assert (trainers.size, trainers.requested_sizes) == (4, {SizeRequester.SCALE: 4})


def test_every_pod_bears_the_labels_that_scripts_look_for() -> None:
    job = parsed({"fault_tolerant": True}, pserver={"min-instance": 1})
    assert job.naming.labels == {"paddle-job-name": "{job}"}
    assert {group.name: dict(group.labels) for group in job.groups} == {
        "master": {"paddle-job-master": "fit"},
        "pserver": {"paddle-job-pserver": "fit"},
        "trainer": {"paddle-job": "fit"},
    }


def test_servers_are_not_asked_how_the_job_went_and_come_back() -> None:
    servers = group_of(parsed(pserver={"min-instance": 2, "restart_limit": 7}), "pserver")
    assert servers.complete_policy is EndPolicy.NONE
    rule = servers.restart_rule
    assert (rule.policy, rule.scope, rule.limit) == (RestartPolicy.ALWAYS, RestartScope.POD, 7)


def test_a_trainer_of_a_fixed_number_fails_the_job_unless_it_may_come_back() -> None:
    assert group_of(parsed()).restart_rule.policy is RestartPolicy.ON_NODE_FAIL
    rule = group_of(parsed(trainer={"restart_limit": "2"}, pserver={"min-instance": 1})).restart_rule
    assert (rule.policy, rule.scope, rule.limit) == (RestartPolicy.ALWAYS, RestartScope.POD, 2)
    assert group_of(parsed(trainer={"restart_limit": 2})).restart_rule.scope is RestartScope.ALL


@pytest.mark.parametrize(
    ("said", "size", "limit"), [(None, 2, 3), (None, 20, 20), ("50%", 20, 10), ("30%", 4, 2), (0, 9, 0)]
)
def test_restarts_follow_the_size_that_trainers_have(said: Any, size: int, limit: int) -> None:
    memory = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups={"trainer": GroupState(applied_size=size)})
    rule = group_of(
        parsed(trainer={"max-instance": 60, "restart_limit": said}, status={"pliant": dump_state(memory)})
    ).restart_rule
    assert (rule.policy, rule.limit) == (RestartPolicy.ALWAYS, limit)


def test_walltime_limits_the_job() -> None:
    job = parsed({"annotations": {"walltime": "3600", "userid": "7"}})
    assert (job.time_limit, job.counts_time_from_start) == (timedelta(hours=1), True)


@pytest.mark.parametrize("said", [{"is_nccl": True}, {"frame_work": {"name": "paddle", "type": "nccl2"}}])
def test_trainers_that_talk_to_each_other_have_no_servers(said: dict[str, Any]) -> None:
    job = parsed(said, pserver={"min-instance": 2})
    assert [group.name for group in job.groups] == ["trainer"]
    assert job.warnings == ("spec.pserver: the 2 servers are ignored because the job is local or uses nccl",)


def test_trainers_that_talk_to_each_other_start_again_together() -> None:
    trainers = group_of(parsed({"is_nccl": True}, trainer={"max-instance": 6}))
    assert (trainers.is_autoscaled, trainers.resize_mode, trainers.restart_rule.scope) == (
        True,
        ResizeMode.RESTART,
        RestartScope.ALL,
    )
    tolerant = group_of(parsed({"is_nccl": True, "fault_tolerant": True}, trainer={"max-instance": 6}))
    assert (tolerant.resize_mode, tolerant.restart_rule.scope) == (ResizeMode.JOIN, RestartScope.POD)


def test_what_is_asked_for_in_vain_is_warned_of() -> None:
    job = parsed({"frame_work": {"name": "tensorflow"}}, trainer={"instances": 4})
    assert job.warnings == (
        "spec.trainer.instances (4) is ignored: the bounds fix the size at 2",
        'spec.frame_work.name: "tensorflow" is ignored; pods get the Paddle variables',
    )


def test_a_local_job_is_one_trainer() -> None:
    job = parsed({"local_job": "true"}, trainer={"min-instance": 3, "max-instance": 6})
    assert [(group.name, group.size, group.is_elastic) for group in job.groups] == [("trainer", 1, False)]


def test_a_field_that_nobody_knows_is_warned_of_and_old_ones_are_not() -> None:
    job = parsed({"matrix": True}, trainer={"min-instnce": 3, "replicaSpec": {"spec": {}}, "etcd-endpoint": "x"})
    assert job.warnings == ("spec.trainer.min-instnce is unknown and ignored: did you mean min-instance?",)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"trainer": None}, "spec.trainer: is required: the job completes with its trainers"),
        ({"trainer": {}}, "spec.trainer.entrypoint: is required: it is the command of the trainers"),
        (
            {"trainer": {"entrypiont": "true"}},
            (
                "spec.trainer.entrypoint: is required: it is the command of the trainers; "
                "spec.trainer.entrypiont is unknown and ignored: did you mean entrypoint?"
            ),
        ),
        ({"Port": "many"}, 'spec.Port: must be an integer, got "many"'),
        ({"port": 70000}, "spec.port: must be 65535 or less, got 70000"),
        ({"port": 65535}, "spec.ports_num: 2 ports from 65535 on exceed 65535: choose a lower first port"),
        ({"hostNetwork": "perhaps"}, 'spec.hostNetwork: must be true or false, got "perhaps"'),
        ({"port": 1, "Port": 2}, "spec.Port: differs from spec.port: remove one of them"),
        ({"mountPath": "work"}, 'spec.mountPath: must be an absolute path, got "work"'),
        ({"volumes": [{"emptyDir": {}}]}, "spec.volumes[0].name: must be a string, got null"),
        ({"annotations": {"walltime": "soon"}}, 'spec.annotations.walltime: must be a number of seconds, got "soon"'),
        (
            {"trainer": {"entrypoint": "x", "restart_limit": "often"}},
            'spec.trainer.restart_limit: must be a number of restarts or a percentage such as 50%, got "often"',
        ),
        ({"trainer": {"entrypoint": "x", "Min_Instance": -1}}, "spec.trainer.Min_Instance: must be 0 or more, got -1"),
        ({"trainer": {"entrypoint": "x", "envs": 5}}, "spec.trainer.envs: must be a map of names to values, got 5"),
    ],
)
def test_what_cannot_be_used_is_named_as_it_is_written(raw: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        PaddleJobFrontend().parse(raw_job(raw))
    assert str(refused.value) == problem


def test_who_finds_peers_is_one_of_two() -> None:
    with pytest.raises(InvalidSpec, match=r"pliant/discovery.*did you mean image"):
        parsed(annotations={"pliant/discovery": "imgae"})


def _of(spec: dict[str, Any]) -> dict[str, Any]:
    return {**raw_job(), "spec": spec}
