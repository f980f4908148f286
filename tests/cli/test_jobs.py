"""Jobs are found by name among all kinds, as far as one may look."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.cli.cluster.job_lookup import (
    find_job,
    frontends_by_name,
    list_jobs,
    parse_job_object,
    unambiguous_kind_name,
)
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.input.yaml_reader import parse_documents
from pliant.controllers.job import resource_of
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import Forbidden, UserError
from pliant.frontends import FRONTENDS
from pliant.frontends.accepted_spec import accept_spec
from pliant.frontends.status.engine_state import dump_state
from pliant.kube.client import KubeClient
from pliant.kube.transport.base import Reply, Request
from pliant.model.state import EngineState, JobPhase, ReplicaCounts
from pliant.runtime.clock import SystemClock
from tests.builders import NOON
from tests.cli.toy_node import JOB
from tests.frontends.paddle_batch import PDJ, raw_pdj, role

[AITJ, *_] = FRONTENDS.values()
NAMESAKE = FRONTENDS["kubeflow.org", "PaddleJob"]


class Doorkeeper(InProcessTransport):
    """Lets nobody look at paths that end so."""

    forbidden = "nothing"

    async def send(self, request: Request) -> Reply:
        if request.path.endswith(self.forbidden):
            raise Forbidden(403, "Forbidden", f"you may not read {request.path}")
        return await super().send(request)


@pytest.fixture
async def door() -> AsyncIterator[Doorkeeper]:
    """The way to a server that knows three kinds and has one job, `demo`."""
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
        transport = Doorkeeper(api)
        client = KubeClient(transport)
        await install_crds(client, (AITJ, PDJ, NAMESAKE))
        [written] = parse_documents("job.yaml", JOB.encode())
        await client.create(resource_of(AITJ), "default", written.value)
        yield transport


def target(door: Doorkeeper, namespace: str = "default") -> ClusterTarget:
    return ClusterTarget(KubeClient(door), namespace, namespace)


@pytest.mark.parametrize("name", ["demo", "aitj/demo", "AITrainingJob/demo", f"{AITJ.plural}.{AITJ.group}/demo"])
async def test_a_job_is_found_by_any_of_its_names(door: Doorkeeper, name: str) -> None:
    one = await find_job(target(door), name)
    assert one.qualified_name == f"aitrainingjob.{AITJ.group}/demo"
    assert one.message == "not reconciled by an operator yet"


async def test_kinds_of_the_same_name_are_told_apart_by_their_group(door: Doorkeeper) -> None:
    client = KubeClient(door)
    twin = {"name": "twin", "namespace": "default"}
    await client.create(resource_of(PDJ), "default", {**raw_pdj(worker=role()), "metadata": twin})
    other = {"apiVersion": "kubeflow.org/v1", "kind": "PaddleJob", "metadata": twin}
    spec = {"paddleReplicaSpecs": {"Worker": role()}}
    await client.create(resource_of(NAMESAKE), "default", {**other, "spec": spec})
    choices = "`paddlejob.kubeflow.org/twin` or `paddlejob.batch.paddlepaddle.org/twin`"
    for name in ("twin", "paddlejob/twin"):
        with pytest.raises(UserError, match=f"several jobs are named `twin`; write {choices}"):
            await find_job(target(door), name)
    for name in ("pdj/twin", "PaddleJob.batch.paddlepaddle.org/twin"):
        assert (await find_job(target(door), name)).frontend is PDJ
    assert (await find_job(target(door), "paddlejobs.kubeflow.org/twin")).frontend is NAMESAKE
    assert unambiguous_kind_name(PDJ, PDJ.plural) == "paddlejobs.batch.paddlepaddle.org"
    assert unambiguous_kind_name(AITJ, AITJ.plural) == AITJ.plural


async def test_a_job_that_is_not_there_is_looked_for_nearby(door: Doorkeeper) -> None:
    with pytest.raises(UserError, match="did you mean `demo`"):
        await find_job(target(door), "dmeo")
    with pytest.raises(UserError, match="it exists in namespace default: use `-n default`"):
        await find_job(target(door, "other"), "demo")
    with pytest.raises(UserError, match="jobs: demo"):
        await find_job(target(door), "xyz")
    with pytest.raises(UserError, match="unknown kind `x`"):
        frontends_by_name("x")


async def test_who_may_see_one_namespace_alone_is_helped_all_the_same(door: Doorkeeper) -> None:
    door.forbidden = f"/{AITJ.version}/{AITJ.plural}"  # the list of all namespaces
    with pytest.raises(UserError, match="did you mean `demo`"):
        await find_job(target(door), "dmeo")


async def test_what_may_not_be_seen_is_told_as_the_server_tells_it(door: Doorkeeper) -> None:
    door.forbidden = f"/{AITJ.plural}/demo"
    with pytest.raises(Forbidden, match="you may not read"):
        await find_job(target(door), "aitj/demo")


async def test_a_cluster_without_our_kinds_says_how_to_get_them() -> None:
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
        with pytest.raises(UserError, match=r"pliant crds \| kubectl apply"):
            await list_jobs(target(Doorkeeper(api)))


async def test_a_job_edited_into_nonsense_still_tells_how_many_of_its_members_run(door: Doorkeeper) -> None:
    one = await find_job(target(door), "demo")
    counts = {"worker": ReplicaCounts(size=2, active=2)}
    state = EngineState(phase=JobPhase.RUNNING, started_at=SystemClock().now(), replica_counts=counts)
    broken = {**one.raw, "spec": {"replicaSpecs": 7}, "status": {"pliant": dump_state(state)}}
    nonsense = parse_job_object(one.frontend, broken)
    assert nonsense.phase == "Invalid"
    assert nonsense.state is not None
    assert nonsense.state.replica_counts == counts
    assert parse_job_object(one.frontend, {**broken, "status": {"pliant": {"phase": 7}}}).state is None


def test_a_refused_edit_is_shown_beside_the_phase() -> None:
    raw = raw_pdj(worker=role(2))
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, accepted_spec=accept_spec(raw, None))
    edited = {**raw_pdj(worker={**role(2), "requests": 5, "limits": 1}), "status": {"pliant": dump_state(state)}}
    shown = parse_job_object(PDJ, edited)
    assert (shown.phase, shown.parse_error) == ("Running", "")
    assert shown.job is not None
    assert [group.size for group in shown.job.groups] == [2]
    assert shown.rejection.startswith("spec.worker.requests")
    assert shown.message.endswith(shown.rejection)
