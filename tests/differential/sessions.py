"""Sends a sequence to one server and collects its answers."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from pliant.errors import Unreachable
from pliant.kube.transport.base import Reply, Request, Transport
from tests.differential.answers import (
    CRASHED,
    PANICKED,
    Answer,
    decode_reply,
    normalize_body,
    normalize_objects,
    normalize_reply,
)
from tests.differential.steps import OTHER_SPACE, SPACE, WAIT, WATCH, Step, object_path, substitute

LAST_OBJECT = "last-of-the-watch"
"""The name of an object that is created after a sequence: a watch that delivers it has delivered everything."""
_WATCH_SECONDS = 10.0
_TRIES, _RETRY_SECONDS = 4, 0.5
_WAIT_SECONDS = 2.5
"""kube-apiserver reads new policies at most once a second, after a watch has delivered them."""


@dataclass(frozen=True)
class _OpenWatch:
    """The events of a watch so far, and the task that reads them until the last one."""

    events: list[Any]
    task: asyncio.Task[None]
    before: dict[str, Any]

    async def collect(self, code: int) -> list[Any]:
        """Return all events, at most some time after the last object was created with a code."""
        done, _ = await asyncio.wait([self.task], timeout=_WATCH_SECONDS if code == 201 else 0)
        if not done:
            return [*self.events, {"type": "TIMEOUT", "code": code}]
        self.task.result()
        return self.events


class Session:
    """One run of a sequence on one server."""

    def __init__(self, transport: Transport, run: str) -> None:
        self._transport = transport
        self._run = run
        self._now = "1"
        self._continue = ""
        self._known: dict[str, dict[str, str]] = {}

    async def prepare(self) -> None:
        """Create the namespaces and their service accounts, from which pods mount no token."""
        for name in (SPACE, OTHER_SPACE):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.send(Step("POST", "/api/v1/namespaces", namespace))
            path = f"/api/v1/namespaces/{name}/serviceaccounts"
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
                "automountServiceAccountToken": False,
            }
            answer = await self.send(Step("POST", path, account))
            if answer.code != 201:
                await self.send(Step("PUT", f"{path}/default", account))

    async def send(self, step: Step) -> Answer:
        """Send a request and return what matters of the answer."""
        await self._await_cache(step)
        try:
            reply = await self._transport.send(step.to_request(self._values(step)))
        except Unreachable as error:
            if "Server disconnected" not in str(error):  # so does kube-apiserver end a request in which it panics
                raise
            await self._transport.send(Request(method="GET", path="/livez"))  # it still runs
            return Answer(PANICKED, str(error))
        except Exception as error:  # the in-process server has no HTTP layer that turns a crash into an answer
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Answer(CRASHED, f"{error!r} in {last.filename}:{last.lineno}")
        self._remember(step, decode_reply(reply))
        return normalize_reply(reply, self._run)

    async def _await_cache(self, step: Step) -> None:
        """Wait until the watch cache has what is stored: kube-apiserver answers some reads from an older state."""
        if step.query.get("resourceVersion", "0" if step.method == WATCH else "") != "0":
            return
        newest = Step("GET", step.collection_path, query={"limit": "1"})  # read from the storage
        reply = await self._transport.send(newest.to_request(self._values(step)))
        version = decode_reply(reply)["metadata"].get("resourceVersion")
        if version:
            cached = replace(newest, query={"resourceVersion": version})
            await self._transport.send(cached.to_request(self._values(step)))

    async def run(self, steps: Sequence[Step]) -> AsyncIterator[Answer]:
        """Yield the answer of each step; a watch is answered by its first code, and by its events at the end."""
        async with AsyncExitStack() as stack:
            watches: list[tuple[Step, _OpenWatch]] = []
            for step in steps:
                if step.method == WAIT:
                    await asyncio.sleep(_WAIT_SECONDS)
                    yield Answer(200, None)
                elif step.method == WATCH:
                    answer, watch = await stack.enter_async_context(self._watch(step))
                    if watch is not None:
                        watches.append((step, watch))
                    yield answer
                else:
                    yield await self.send(step)
            for step, watch in watches:
                events = await watch.collect(await self._end_watch(step))
                yield Answer(200, normalize_body(events, self._run), watch.before)

    @asynccontextmanager
    async def _watch(self, step: Step) -> AsyncIterator[tuple[Answer, _OpenWatch | None]]:
        await self._await_cache(step)
        before = await self._list_before(step)
        request = replace(step.to_request(self._values(step)), timeout=60.0)
        async with self._transport.stream(_as_watch(request)) as stream:
            if stream.status != 200:
                body = b"".join([chunk async for chunk in stream.chunks])
                yield normalize_reply(Reply(status=stream.status, body=body), self._run), None
                return
            events: list[Any] = []
            task = asyncio.create_task(_read_events(stream.chunks, events))
            try:
                yield Answer(200, None), _OpenWatch(events, task, before)
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _list_before(self, step: Step) -> dict[str, Any]:
        """Return the objects at the version after which a watch begins; others begin with their objects."""
        if step.query.get("resourceVersion") != "{now}":
            return {}
        query = {"resourceVersion": "{now}", "resourceVersionMatch": "Exact"}
        request = Step("GET", step.path, query=query).to_request(self._values(step))
        return normalize_objects(await self._transport.send(request), self._run)

    async def _end_watch(self, step: Step) -> int:
        """Create an object that the watch must deliver as its last one; return the code of the answer.

        kube-apiserver may refuse it for a moment, as long as its caches show an earlier state.
        """
        from tests.differential.objects.examples import make_minimal

        creation = Step("POST", step.path, make_minimal(step.path, LAST_OBJECT)).to_request(self._values(step))
        for _ in range(_TRIES):
            code = (await self._transport.send(creation)).status
            if code in (201, 409):  # for another watch, there may be one already
                break
            await asyncio.sleep(_RETRY_SECONDS)
        return 201 if code == 409 else code

    def _values(self, step: Step) -> dict[str, str]:
        known = self._known.get(substitute(object_path(step), {"run": self._run}), {})
        return {
            "run": self._run,
            "version": known.get("version", "1"),
            "first": known.get("first", "1"),
            "uid": known.get("uid", "00000000-0000-0000-0000-000000000000"),
            "now": self._now,
            "continue": self._continue,
        }

    def _remember(self, step: Step, body: Any) -> None:
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(metadata, dict):
            return
        self._continue = metadata.get("continue") or self._continue
        version = metadata.get("resourceVersion")
        if not isinstance(version, str) or not version.isdigit():
            return
        self._now = max(self._now, version, key=int)
        path = substitute(object_path(step), {"run": self._run})
        known = self._known.setdefault(path, {"first": version})
        known["version"] = version
        known["uid"] = metadata.get("uid") or known.get("uid", "")


async def _read_events(chunks: AsyncIterator[bytes], events: list[Any]) -> None:
    """Append the events of a watch, up to that of the last object."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(None, lines):
            event = json.loads(line)
            if event["object"].get("metadata", {}).get("name") == LAST_OBJECT:
                return
            events.append(event)


def _as_watch(request: Request) -> Request:
    return replace(request, query={**request.query, "watch": "true"})
