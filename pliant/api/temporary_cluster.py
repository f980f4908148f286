"""Starts and stops the embedded cluster of `run` and `cluster`, in the event loop of the caller."""

from __future__ import annotations

import asyncio
import logging
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pliant.api.access import api_errors
from pliant.cli.cluster.local_operator import run_local_operator
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import ClusterLost
from pliant.cli.input.autoscale_options import autoscale_options
from pliant.cli.input.local_cluster_options import cluster_config
from pliant.cli.input.operator_options import local_master_command
from pliant.cli.input.problems import first_pliant_error
from pliant.cli.local.run_dir import create_run_dir
from pliant.embedded.cluster import EmbeddedCluster
from pliant.errors import UserError
from pliant.frontends.frontend import Frontend
from pliant.kube.client import KubeClient
from pliant.model.operator_config import OperatorConfig

# As a library, log nothing unless the program configures logging.
logging.getLogger("pliant").addHandler(logging.NullHandler())


class TemporaryClusterRunner:
    """Runs a cluster with its operator in a task of its own, which starts and stops all parts of it.

    So the context of the cluster may be entered and left by different tasks, as test fixtures do.
    """

    def __init__(self, arguments: Namespace, workspace: Path, frontends: Sequence[Frontend] | None = None) -> None:
        self._arguments = arguments
        self._workspace = workspace
        self._frontends = frontends
        self._cluster: EmbeddedCluster | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._process = os.getpid()
        self._ending: asyncio.Future[None] | None = None
        """Done as soon as the cluster stops or fails."""

    @property
    def is_open(self) -> bool:
        is_running = self._cluster is not None and self._ending is not None and not self._ending.done()
        return is_running and self._process == os.getpid()

    @property
    def cluster(self) -> EmbeddedCluster:
        """The started cluster; raise UserError if it has stopped."""
        if self._cluster is None or not self.is_open:
            raise self._stopped_error()
        return self._cluster

    async def start(self) -> None:
        """Start the cluster and wait until its operator is ready."""
        if self._task is not None:
            raise UserError("a cluster can be started once; create another one with cluster()")
        started = asyncio.Event()
        self._ending = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(started))
        self._task.add_done_callback(lambda task: self._end())
        ready = asyncio.create_task(started.wait())
        try:
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
            if not started.is_set():
                with api_errors():
                    await self._task
        except asyncio.CancelledError:
            await self._cancel()
            raise
        finally:
            ready.cancel()

    async def stop(self) -> None:
        """Stop the cluster and all its pods, and delete its data; raise the error with which it failed, if any."""
        if self._task is None:
            return
        self._end()
        self._stop.set()
        try:
            with api_errors():
                await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self._cancel()
            raise

    @asynccontextmanager
    async def use(self) -> AsyncIterator[EmbeddedCluster]:
        """Yield the cluster; if it ends meanwhile, interrupt the block with ClusterLost."""
        cluster, ending, task = self.cluster, self._ending, asyncio.current_task()
        assert ending is not None
        assert task is not None
        is_interrupted = False

        def interrupt(_: asyncio.Future[None]) -> None:
            nonlocal is_interrupted
            is_interrupted = True
            task.cancel()

        ending.add_done_callback(interrupt)
        try:
            yield cluster
        except asyncio.CancelledError:
            if is_interrupted and not task.uncancel():
                raise self._stopped_error() from None
            raise
        finally:
            ending.remove_done_callback(interrupt)

    async def _run(self, started: asyncio.Event) -> None:
        with create_run_dir() as data_dir:
            config = cluster_config(self._arguments, data_dir, workspace=self._workspace, durable=False)
            operator_config = OperatorConfig(master_command=local_master_command())
            autoscale = autoscale_options(self._arguments)
            async with (
                EmbeddedCluster.start(config) as cluster,
                run_local_operator(cluster, operator_config, autoscale, self._frontends),
            ):
                self._cluster = cluster
                started.set()
                await self._stop.wait()

    def _end(self) -> None:
        """Interrupt everything that uses the cluster."""
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(None)

    async def _cancel(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})

    def _stopped_error(self) -> Exception:
        if self._process != os.getpid():
            return UserError("the cluster belongs to the parent of this process; use it there, or start another one")
        if self._task is None or self._cluster is None:
            return UserError("the cluster is not started; use it as a context manager: `with cluster() as c:`")
        error = None if not self._task.done() or self._task.cancelled() else self._task.exception()
        if error is not None:
            cause = first_pliant_error(error) if isinstance(error, BaseExceptionGroup) else error
            return ClusterLost(f"the temporary cluster failed: {cause}")
        return ClusterLost("the temporary cluster has stopped; submit the job to a cluster that still runs")


class TemporaryClusterAccess:
    """Connects to one namespace of a temporary cluster."""

    def __init__(self, runner: TemporaryClusterRunner, namespace: str) -> None:
        self.runner = runner
        self.namespace = namespace

    @property
    def description(self) -> str:
        return f"temporary cluster {self.runner.cluster.url}" if self.is_open else "stopped temporary cluster"

    @property
    def is_open(self) -> bool:
        return self.runner.is_open

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ClusterTarget]:
        async with self.runner.use() as cluster:
            yield ClusterTarget(KubeClient(cluster.transport), self.namespace, self.namespace)


async def stop_ignoring_errors(runner: TemporaryClusterRunner) -> None:
    """Stop a cluster after another error, which counts."""
    with suppress(Exception):
        await runner.stop()
