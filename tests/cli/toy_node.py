"""A node that runs nothing: pods end as told, at once, and write what they are told to."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from pliant.cli.cluster.apply import kind_registry_for_manifests
from pliant.cli.input.manifest_checks import check_runnable_locally
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import first_pliant_error
from pliant.cli.input.yaml_reader import parse_documents
from pliant.cli.local.run_result import RunResult
from pliant.cli.local.run_session import OperatorSetup, RunPlan, RunSession
from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.run_view import PlainRunView, RunOutputOptions, RunView
from pliant.cli.output.style import TerminalStyle
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import EVENTS, PODS
from pliant.runtime.clock import SystemClock
from tests.builders import KEY_SECRET

JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: demo}
spec:
  replicaSpecs:
    worker:
      replicas: 2
      template:
        spec:
          containers:
            - {name: aitj-worker, image: any, command: [train]}
"""


@dataclass
class ToyNode:
    """Takes every pod, and gives it the container state told for it."""

    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    phase: str = "Succeeded"
    output: bytes = b"first\nlast"
    warnings: int = 0

    async def read_container_log(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        for piece in self.output.split(b" "):
            await asyncio.sleep(0)
            yield piece

    async def run(self, client: KubeClient) -> None:
        news: asyncio.Queue[Pod] = asyncio.Queue()
        informer = Informer(client, PODS, Pod, on_change=lambda old, new: news.put_nowait(new) if new else None)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            taken = set[str]()
            while True:
                pod = await news.get()
                if pod.metadata.uid not in taken:
                    taken.add(pod.metadata.uid)
                    await self._take(client, pod)

    async def _take(self, client: KubeClient, pod: Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        for number in range(self.warnings):
            about = {"kind": "Pod", "name": name, "namespace": namespace}
            told = {"type": "Warning", "reason": "FailedMount", "message": "no such volume", "involvedObject": about}
            body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.{number}"}, **told}
            await client.create(EVENTS, namespace, body)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "toy"}}
        await client.create(PODS, namespace, binding, subresource="binding", name=name)
        state = self.states.get(name, {"terminated": {"exitCode": 0}})
        code = state.get("terminated", {}).get("exitCode")
        phase = self.phase if code == 0 else "Failed" if code else "Pending" if "waiting" in state else "Running"
        status = {"name": "aitj-worker", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
        change = {"status": {"phase": phase, "containerStatuses": [{**status, "state": state}]}}
        await client.patch(PODS, namespace, name, change, subresource="status")


@dataclass(frozen=True)
class Shown:
    """What a run showed, and how it ended."""

    verdict: RunResult
    out: str
    err: str


class LateView(PlainRunView):
    """Lets the time limit of a run pass as soon as all replicas are running, however slow this machine is."""

    limit = timedelta(minutes=1)

    def show_group_status(self, groups: Sequence[GroupStatusLine]) -> None:
        """Show the groups, and move the clock of the event loop."""
        super().show_group_status(groups)
        loop = asyncio.get_running_loop()
        if groups and all(group.phase == "Running" and group.running == group.size for group in groups):
            late = loop.time() + self.limit.total_seconds()
            loop.time = lambda: late  # type: ignore[method-assign]


async def run_on(node: ToyNode, text: str = JOB, *, until_late: bool = False) -> Shown:
    """Run the jobs of a text on a server in this process, with the toy as its only node."""
    timeout, view = (LateView.limit, LateView) if until_late else (None, PlainRunView)
    manifests = [Manifest(document.value, document) for document in parse_documents("job.yaml", text.encode())]
    catalog = kind_registry_for_manifests(manifests)
    check_runnable_locally(manifests, catalog, "default")
    plan = RunPlan(
        manifests=manifests, kind_registry=catalog, namespace="default", timeout=timeout, style=TerminalStyle()
    )
    out, err = io.StringIO(), io.StringIO()
    try:
        verdict = await _verdict(node, plan, view(out, err, RunOutputOptions(), lambda: None))
    except BaseExceptionGroup as group:
        raise first_pliant_error(group) from group
    return Shown(verdict, out.getvalue(), err.getvalue())


async def _verdict(node: ToyNode, plan: RunPlan, view: RunView) -> RunResult:
    async with (
        ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock(), log_source=node) as api,
        asyncio.TaskGroup() as tasks,
    ):
        client = KubeClient(InProcessTransport(api))
        working = tasks.create_task(node.run(client))
        verdict = await RunSession(client, OperatorSetup(client, KEY_SECRET), plan, view, tasks).run_jobs(
            asyncio.get_running_loop().time(), Path("/")
        )
        view.close()
        working.cancel()
        return verdict
