"""Reads the logs of a job's members: what is there, or whatever comes until the job ends."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, TextIO

from pliant.cli.heartbeat import heartbeat
from pliant.cli.jobs import Found, found
from pliant.cli.lines import LineSplitter
from pliant.cli.logstreams import LogStreams, Window
from pliant.cli.members import group_of, number_of, selector_of, title_of
from pliant.cli.speakers import Speakers
from pliant.cli.style import Style
from pliant.cli.surroundings import pods_of
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.model.labels import member_group

LAST_WORDS = timedelta(seconds=2)
"""How long the streams of a job that has ended may be silent."""


class LogReader:
    """Writes the lines of the members that were asked for."""

    def __init__(self, client: KubeClient, one: Found, args: Namespace, out: TextIO) -> None:
        self._client = client
        self._one = one
        self._args = args
        self._out = out
        self._speakers = Speakers(Style.of(out))
        self._window = Window(args.tail, int(args.since.total_seconds()) or 1 if args.since else None)
        self._is_over = asyncio.Event()

    async def read(self) -> bool:
        """Everything that is there, member by member; False if nothing is."""
        has_spoken = False
        pods = [pod for pod in await pods_of(self._client, self._one) if self._is_meant(pod)]
        self._speakers.expect(self._speaker(pod) for pod in pods)
        for pod in pods:
            for container in self._containers(pod):
                has_spoken |= await self._read(pod, container)
        self._out.flush()
        return has_spoken

    async def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Everything that comes until the job has ended or is gone, and its last lines are read."""
        streams = LogStreams(self._client, tasks, self._line)
        present = await pods_of(self._client, self._one)
        self._speakers.expect(map(self._speaker, present))
        known = {pod.metadata.uid for pod in present}

        def notice(pod: Pod) -> None:
            # Only what was there before is cut short: of newcomers every line is wanted.
            if self._is_meant(pod) and self._is_ours(pod):
                streams.notice(pod, self._window if pod.metadata.uid in known else None)

        informers = [
            tasks.create_task(informer.run()) for informer in (self._pods(notice, streams.gone), self._job())
        ]
        informers.append(tasks.create_task(heartbeat(self._client)))
        await self._is_over.wait()
        with suppress(ApiError):
            # The end of the job may be known before that of its pods: there are two watches.
            for pod in await pods_of(self._client, self._one):
                notice(pod)
        await streams.drain(LAST_WORDS)
        for task in informers:
            task.cancel()
        self._out.flush()

    def _pods(self, notice: Callable[[Pod], None], gone: Callable[[Pod], None]) -> Informer[Pod]:
        def changed(old: Pod | None, new: Pod | None) -> None:
            if new is not None:
                notice(new)
            elif old is not None:
                gone(old)

        where, selector = self._one.key.namespace, selector_of(self._one)
        return Informer(self._client, PODS, Pod, namespace=where, labels=selector, on_change=changed)

    def _job(self) -> Informer[dict[str, Any]]:
        def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            state = found(self._one.frontend, new).state if new is not None else None
            if new is None or (state is not None and state.phase.is_final):
                self._is_over.set()

        key = self._one.key
        return Informer(
            self._client,
            self._one.resource,
            dict,
            namespace=key.namespace,
            fields=f"metadata.name={key.name}",
            on_change=changed,
        )

    async def _read(self, pod: Pod, container: str) -> bool:
        splitter, has_spoken, meta = LineSplitter(), False, pod.metadata
        try:
            async for chunk in self._client.logs(
                meta.namespace,
                meta.name,
                container=container,
                tail=self._window.tail,
                since=self._window.since,
                previous=self._args.previous,
            ):
                for line in splitter.feed(chunk):
                    has_spoken = True
                    self._line(pod, container, line)
        except ApiError:
            return has_spoken  # it has not started, there was no run before, or its node is gone
        for line in splitter.close():
            has_spoken = True
            self._line(pod, container, line)
        return has_spoken

    def _line(self, pod: Pod, container: str, line: str) -> None:
        if self._args.container and container != self._args.container:
            return
        many = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
        name = f"{self._speaker(pod)}/{container}" if many else self._speaker(pod)
        self._out.write(f"{self._speakers.line(name, line) if self._args.prefix else line}\n")
        if self._args.follow:
            self._out.flush()

    def _containers(self, pod: Pod) -> Iterator[str]:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if self._args.container in (None, container.name):
                yield container.name

    def _is_meant(self, pod: Pod) -> bool:
        job, args = self._one.job, self._args
        if args.group and group_of(job, pod) != member_group(args.group):
            return False
        return args.rank is None or number_of(job, pod) == str(args.rank)

    def _speaker(self, pod: Pod) -> str:
        return title_of(self._one.job, pod)

    def _is_ours(self, pod: Pod) -> bool:
        return any(owner.uid == self._one.uid for owner in pod.metadata.owner_references)
