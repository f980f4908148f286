"""Programs that read files follow the membership by a ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pliant.engine.decide import decide
from pliant.frameworks.mpi import Mpi
from pliant.frameworks.paddle import Paddle
from pliant.frameworks.pytorch import DeepSpeed
from pliant.model.actions import Act, Action, CreatePod, PersistTransition, WriteMembershipFile
from pliant.model.departures import PublishedMember
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.observed import ObservedPod
from pliant.model.state import SizeRequester
from tests.builders import NOON, PlainFramework, StoredJob, make_group, make_job, make_pod, seeing


class WithHosts(PlainFramework):
    def membership_files(self, job: Job, members: Sequence[PublishedMember]) -> Mapping[str, str]:
        return {"hosts": "".join(f"{member.address}\n" for member in members)}


def ask(job: StoredJob, *pods: ObservedPod, framework: Framework | None = None) -> Act | PersistTransition:
    return decide(job, job.state, seeing(*pods), framework or WithHosts(), NOON)


def advanced(job: StoredJob, decision: Act | PersistTransition) -> StoredJob:
    assert decision.status is not None, decision
    return replace(job, state=decision.status.state)


def files_of(decision: Act | PersistTransition) -> dict[str, str]:
    assert isinstance(decision, Act)
    [file] = [action for action in decision.actions if isinstance(action, WriteMembershipFile)]
    return dict(file.manifest["data"])


def is_file(action: Action) -> bool:
    return isinstance(action, WriteMembershipFile)


def test_the_file_is_written_with_the_status_that_publishes_the_membership() -> None:
    decision = ask(make_job(), make_pod(0), make_pod(1))
    files = files_of(decision)
    assert files["hosts"] == "demo-worker-0.default\ndemo-worker-1.default\n"
    assert files["generation"] == "1\n"
    assert [member["rank"] for member in json.loads(files["members.json"])] == [0, 1]
    job = advanced(make_job(), decision)
    again = ask(job, make_pod(0), make_pod(1))
    assert isinstance(again, Act)
    assert (again.actions, again.status) == ((), None)


def test_the_file_follows_a_membership_that_a_transition_published() -> None:
    pods = [make_pod(index, acknowledged_checkpoint=0) for index in (0, 1)]
    job = advanced(make_job(), ask(make_job(), *pods))
    group = replace(job.groups[0], requested_sizes={SizeRequester.SCALE: 1})
    job = advanced(job, ask(replace(job, groups=(group,)), *pods))
    decision = ask(replace(job, groups=(group,)), *pods)
    assert files_of(decision)["hosts"] == "demo-worker-0.default\n"
    assert files_of(decision)["generation"] == "2\n"


def test_the_pods_mount_the_file_and_start_without_it() -> None:
    decision = ask(make_job())
    assert isinstance(decision, Act)
    pods = [action.manifest["spec"] for action in decision.actions if isinstance(action, CreatePod)]
    volumes = [volume["configMap"] for spec in pods for volume in spec["volumes"]]
    assert {volume["name"] for volume in volumes} == {f"demo-membership-{volumes[0]['name'][-8:]}"}
    assert all(volume["optional"] for volume in volumes)
    assert not any(map(is_file, decision.actions))


def test_a_job_that_needs_no_file_has_none() -> None:
    for group in (make_group(), make_group(is_elastic=True, min_size=1)):
        decision = ask(make_job(group), make_pod(0), make_pod(1), framework=PlainFramework())
        assert isinstance(decision, Act)
        assert not any(map(is_file, decision.actions))


def test_horovod_discovers_the_members_that_stay() -> None:
    job = make_job(make_group("launcher", 1), make_group("worker", 2))
    members = [
        PublishedMember(name="launcher-0", group="launcher", index=0, rank=0, address="demo-launcher-0.default"),
        PublishedMember(name="worker-1", group="worker", index=1, rank=1, address="demo-worker-1.default"),
    ]
    assert Mpi().membership_files(job, members) == {"hosts": "demo-worker-1:1\n"}


def test_elastic_paddle_reads_the_number_of_trainers() -> None:
    trainers = make_group("trainer", 2, is_elastic=True, min_size=1, max_size=4)
    members = [PublishedMember(name="trainer-0", group="trainer", index=0, rank=0, address="demo-trainer-0.default")]
    assert Paddle().membership_files(make_job(trainers), members) == {"np": "1\n"}
    assert Paddle().membership_files(make_job(make_group("trainer", 2)), members) == {}


def test_deepspeed_reads_the_members_in_rank_order() -> None:
    job = make_job(make_group(size=2, is_elastic=True), framework_options={"nproc_per_node": "8"})
    members = [PublishedMember(name="worker-1", group="worker", index=1, rank=0, address="demo-worker-1.default")]
    assert DeepSpeed().membership_files(job, members) == {"hostfile": "demo-worker-1 slots=8\n"}
    assert DeepSpeed().membership_files(make_job(), members) == {}
