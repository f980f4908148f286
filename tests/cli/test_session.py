"""One run on a server in this process, with a node that only pretends."""

from __future__ import annotations

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.cli.commands.admin.operator import check_any_kind_served
from pliant.cli.input.problems import InvalidInput
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import UnsupportedEnvironment
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS
from pliant.runtime.clock import SystemClock
from tests.cli.toy_node import JOB, ToyNode, run_on


async def test_pods_that_end_at_once_lose_no_line() -> None:
    shown = await run_on(ToyNode(output=b"first\nmid dle\nlast without end"))
    assert shown.verdict.exit_code == 0
    assert shown.verdict.text.startswith("✔ demo succeeded in ")
    for member in ("worker-0", "worker-1"):
        lines = [line for line in shown.out.splitlines() if line.startswith(member)]
        assert lines == [f"{member} │ first", f"{member} │ middle", f"{member} │ lastwithoutend"]


async def test_phases_are_told_as_they_pass() -> None:
    shown = await run_on(ToyNode(), f"{JOB}---\n{JOB.replace('name: demo', 'name: other')}")
    phases = [line.partition("] ")[2].partition(",")[0] for line in shown.err.splitlines()]
    assert set(phases) >= {"demo: Pending", "demo: Succeed", "other: Pending", "other: Succeed"}
    assert len(phases) == len(set(phases))


async def test_a_failure_comes_with_its_first_cause_and_its_last_lines() -> None:
    shown = await run_on(ToyNode({"demo-worker-1": {"terminated": {"exitCode": 3}}}, output=b"oh\nno"))
    assert shown.verdict.exit_code == 4  # nobody ever made a node `toy`, so it is gone
    assert "root cause: pod demo-worker-1, container aitj-worker" in shown.verdict.text
    assert shown.verdict.text.endswith("last log lines:\n    │ oh\n    │ no")


async def test_a_container_that_can_never_start_ends_the_run() -> None:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": "no such program: trian"}}
    shown = await run_on(ToyNode({"demo-worker-0": waiting}))
    assert shown.verdict.exit_code == 1
    assert "demo cannot start: worker-0: CreateContainerError: no such program: trian" in shown.verdict.text


async def test_a_run_that_takes_too_long_says_what_it_waited_for() -> None:
    node = ToyNode({f"demo-worker-{index}": {"running": {}} for index in range(2)})
    shown = await run_on(node, until_late=True)
    assert shown.verdict.exit_code == 124
    assert "not finished after 1m00s (--timeout)" in shown.verdict.text
    assert "demo/worker: Running, 2/2 running" in shown.verdict.text


async def test_a_warning_is_shown_once_though_it_is_repeated() -> None:
    shown = await run_on(ToyNode(warnings=3))
    assert shown.err.count("! demo-worker-0: FailedMount: no such volume") == 1


async def test_of_many_warnings_alike_only_the_first_few_are_shown() -> None:
    shown = await run_on(ToyNode(warnings=1), JOB.replace("replicas: 2", "replicas: 9"))
    assert shown.err.count("FailedMount: no such volume") == 3
    assert shown.err.count("and others: same warning") == 1


async def test_objects_may_live_in_namespaces_that_nobody_made() -> None:
    shown = await run_on(ToyNode(), JOB.replace("{name: demo}", "{name: demo, namespace: team-a}"))
    assert shown.verdict.exit_code == 0


async def test_pods_may_use_service_accounts_that_nobody_made() -> None:
    shown = await run_on(ToyNode(), JOB.replace("containers:", "serviceAccountName: trainer\n          containers:"))
    assert shown.verdict.exit_code == 0


async def test_jobs_are_created_after_what_they_need() -> None:
    needs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\ndata: {a: b}\n"
    shown = await run_on(ToyNode(), f"{JOB}---\n{needs}")
    assert shown.verdict.exit_code == 0


async def test_an_operator_says_what_a_cluster_lacks() -> None:
    async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
        client = KubeClient(InProcessTransport(api))
        with pytest.raises(UnsupportedEnvironment, match=r"serves no job kind.*--install-crds"):
            await check_any_kind_served(client)
        await client.create(CRDS, None, FRONTENDS["elasticdeeplearning.ai", "AITrainingJob"].crd())
        await check_any_kind_served(client)
        for _ in range(2):  # a second time updates what is there
            await install_crds(client, [*FRONTENDS.values()][:2])
        await check_any_kind_served(client, ["default"])


async def test_several_jobs_end_in_one_verdict_each() -> None:
    shown = await run_on(ToyNode(), f"{JOB}---\n{JOB.replace('name: demo', 'name: other')}")
    assert shown.verdict.exit_code == 0
    assert shown.verdict.text.count("✔") == 2
    assert "other-worker-1 │ first" in shown.out


async def test_what_only_the_server_refuses_is_told_with_its_place() -> None:
    wrong = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: nonsense, ports: [{port: 1}]}\n"
    with pytest.raises(InvalidInput, match="nonsense") as caught:
        await run_on(ToyNode(), f"{JOB}---\n{wrong}")
    assert str(caught.value.problems[0].location).startswith("job.yaml:16:")
