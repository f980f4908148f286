"""One namespace of a cluster, everything that ever happened in it, and ways to wait for more."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeVar

from pliant.errors import AlreadyExists, NotFound
from pliant.frontends import FRONTENDS
from pliant.frontends.status.rejection import find_rejection
from pliant.kube.client import KubeClient
from pliant.kube.codec import WatchEventType
from pliant.kube.resources import EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES, Resource
from pliant.model.messages import NO_MESSAGE, Message
from pliant.model.state import TimelineEntry
from tests.scenarios.jobs import API_VERSION, KIND, Manifest
from tests.scenarios.laws import Change, Object, broken
from tests.scenarios.messages import message_in, message_of, text_of, timeline_in

T = TypeVar("T")
AnyScene = TypeVar("AnyScene", bound="Scene")

PATIENCE = 30.0
"""Seconds after which something that should have happened is taken never to happen."""
MARK = "PLIANT_TEST_MARK"
"""In the environment of every process of a scene, with the name of its namespace."""

_FRONTEND = FRONTENDS["elasticdeeplearning.ai", KIND]
JOBS = Resource(_FRONTEND.group, _FRONTEND.version, _FRONTEND.plural, _FRONTEND.kind)


@asynccontextmanager
async def a_scene(client: KubeClient, namespace: str = "") -> AsyncIterator[Scene]:
    """A namespace, fresh if none is named; after the test it must go, and no law may have been broken."""
    async with played(Scene(client, namespace or fresh_name())) as scene:
        yield scene


def fresh_name() -> str:
    """The name of a namespace that nobody has used yet."""
    return f"scene-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def played(scene: AnyScene) -> AsyncIterator[AnyScene]:
    """A scene, open; after the test it must go, and no law may have been broken."""
    try:
        await scene.open()
        yield scene
        await scene.clear()
        problems = broken(scene.history, frozenset(scene.excused))
        assert not problems, problems
    finally:
        await scene.close()


class Scene:
    """A namespace of its own, followed from its first moment; nothing but the Kubernetes API is used."""

    jobs: Resource = JOBS
    """The kind of its jobs."""
    beside: tuple[Resource, ...] = ()
    """What else there may be of their own kind."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.history: list[Change] = []
        self._objects: dict[tuple[str, str], Object] = {}
        self._news = asyncio.Event()
        self._followers: list[asyncio.Task[None]] = []
        self.excused: set[str] = set()

    async def open(self) -> None:
        """Make the namespace, unless it is there already, and follow it."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        with suppress(AlreadyExists):
            await self.client.create(NAMESPACES, None, body)
            await self._account_made()
        for resource in (self.jobs, *self.beside, PODS, SERVICES, EVENTS):
            listing = await self.client.list(resource, self.namespace)
            for found in listing.items:
                self._note(WatchEventType.ADDED, {"kind": resource.kind, **found})
            follower = self._follow(resource, listing.resource_version)
            self._followers.append(asyncio.create_task(follower))

    async def clear(self) -> None:
        """Take away all there is, and leave the namespace to go when it may: a real server lets it wait 5 s."""
        await self.empty()
        with suppress(NotFound):
            await self.client.delete(NAMESPACES, None, self.namespace)

    async def empty(self) -> None:
        """Take away all there is."""
        for resource in (self.jobs, *self.beside, PODS, SERVICES):
            for each in (await self.client.list(resource, self.namespace)).items:
                if not any(owner.get("controller") for owner in each["metadata"].get("ownerReferences") or ()):
                    with suppress(NotFound):
                        await self.client.delete(resource, self.namespace, each["metadata"]["name"])
        await self.until_gone()

    async def delete_namespace(self) -> None:
        """Take the namespace away with all that is in it."""
        await self.client.delete(NAMESPACES, None, self.namespace)
        await self._namespace_gone()
        await self.until_gone()

    async def close(self) -> None:
        """Stop following."""
        for follower in self._followers:
            follower.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)

    async def submit(self, manifest: Manifest) -> Object:
        """Create a job, its processes marked as this scene's."""
        body = copy.deepcopy(manifest)
        [groups] = [field for name, field in body["spec"].items() if name.lower().endswith("replicaspecs")]
        for group in groups.values():
            for container in group["template"]["spec"]["containers"]:
                container.setdefault("env", []).append({"name": MARK, "value": self.namespace})
        return await self.client.create(self.jobs, self.namespace, body)

    async def edit(self, name: str, patch: Mapping[str, Any], subresource: str | None = None) -> Object:
        """Merge a change into a job."""
        return await self.client.patch(self.jobs, self.namespace, name, patch, subresource=subresource)

    async def delete(self, name: str) -> None:
        """Delete a job as `kubectl delete` does."""
        await self.client.delete(self.jobs, self.namespace, name, propagation="Background")

    async def delete_pod(self, name: str) -> None:
        """Delete a pod by hand: it may come back at the same attempt."""
        self.excuse(name)
        await self.client.delete(PODS, self.namespace, name)

    def excuse(self, pod: str) -> None:
        """Let a place be filled anew at the same attempt, as the test itself empties it."""
        self.excused.add(pod)

    def job(self, name: str) -> Object:
        """A job as last seen; empty when there is none."""
        return self._objects.get((self.jobs.kind, name), {})

    def status(self, name: str) -> Object:
        """The status of a job as last seen."""
        return self.job(name).get("status") or {}

    def message(self, name: str) -> Message:
        """The message of a job as last seen."""
        return message_in(self.status(name))

    def timeline(self, name: str) -> list[TimelineEntry]:
        """All that happened to a job, as its status tells, the oldest first."""
        return timeline_in(self.status(name))

    def phase(self, name: str) -> str:
        """The phase of a job as last seen."""
        return self.phase_in(self.status(name))

    def phase_in(self, status: Object) -> str:
        """The phase that a status tells; empty if it tells none."""
        return str(status.get("phase") or "")

    @property
    def pods(self) -> dict[str, Object]:
        """Every pod there is, by name."""
        return self._of_kind("Pod")

    @property
    def services(self) -> dict[str, Object]:
        """Every service there is, by name."""
        return self._of_kind("Service")

    def phases(self, name: str) -> list[str]:
        """The phases a job went through, in order."""
        mine = (change for change in self.history if change.kind == self.jobs.kind and change.name == name)
        seen = [self.phase_in(change.object.get("status") or {}) for change in mine]
        return [after for before, after in zip(["", *seen], seen, strict=False) if after != before]

    def made(self, name: str) -> list[Object]:
        """Every pod of that name that ever was, as it was first seen."""
        changes = (change for change in self.history if change.kind == "Pod" and change.type is WatchEventType.ADDED)
        return [change.object for change in changes if change.name == name]

    def attempts(self, name: str) -> list[str]:
        """The attempts at one place, in the words of its pods' labels."""
        return [pod["metadata"]["labels"]["RestartCount"] for pod in self.made(name)]

    def events(self, name: str) -> dict[str, Message]:
        """What was told about a job: the messages by the reason of the event."""
        about = [event for event in self._of_kind("Event").values() if event["involvedObject"]["name"] == name]
        kind = self.jobs.kind
        return {event["reason"]: message_of(event) for event in about if event["involvedObject"]["kind"] == kind}

    def complaint(self, name: str) -> str:
        """What an event says about an invalid spec or a refused edit; empty if there is none."""
        events = self.events(name)
        return text_of(events.get("SpecRejected") or events.get("InvalidSpec", NO_MESSAGE))

    def rejection(self, name: str) -> str:
        """Why the latest edit of a job was refused; empty if it was not."""
        return str(find_rejection(self.status(name), ("conditions",)).get("message", ""))

    async def log(self, pod: str) -> str:
        """All that a pod has written so far."""
        return b"".join([chunk async for chunk in self.client.stream_logs(self.namespace, pod)]).decode()

    async def until_phase(self, name: str, *phases: str) -> Object:
        """Wait for a job to reach one of these phases; its status then."""
        await self.until(lambda: self.phase(name) in phases, f"{name} in phase {' or '.join(phases)}")
        status = self.status(name)
        await self._caught_up()
        return status

    async def until_gone(self) -> None:
        """Wait until no job, pod or service is left."""
        kinds = (self.jobs.kind, *(each.kind for each in self.beside), "Pod", "Service")
        await self.until(lambda: not any(kind in kinds for kind, _ in self._objects), "nothing left")

    async def until(self, condition: Callable[[], T], what: str, within: float = PATIENCE) -> T:
        """Wait until something is true of what has been seen."""
        try:
            async with asyncio.timeout(within):
                while not (answer := condition()):
                    self._check_followers()
                    self._news.clear()
                    await self._news.wait()
                return answer
        except TimeoutError:
            story = "\n  ".join(str(change) for change in self.history[-40:])
            raise AssertionError(f"never came: {what}\n  {story}") from None

    async def _follow(self, resource: Resource, since: str) -> None:
        while True:
            async with aclosing(self.client.watch(resource, self.namespace, resource_version=since)) as changes:
                async for change in changes:
                    since = change.resource_version
                    if change.object is not None:
                        self._note(change.type, change.object)

    def _note(self, happened: WatchEventType, to: Object) -> None:
        change = Change(happened, to, asyncio.get_running_loop().time())
        self.history.append(change)
        if change.type is WatchEventType.DELETED:
            self._objects.pop((change.kind, change.name), None)
        else:
            self._objects[change.kind, change.name] = change.object
        self._news.set()

    async def _caught_up(self) -> None:
        """See all that happened to pods so far: watches of two kinds tell what they saw in no order."""
        # Those seen before the list is asked for: others may come meanwhile.
        known = {pod["metadata"]["uid"] for pod in self.pods.values()}
        listing = await self.client.list(PODS, self.namespace)
        gone = known - {pod["metadata"]["uid"] for pod in listing.items}
        await self.until(
            lambda: gone.isdisjoint(pod["metadata"]["uid"] for pod in self.pods.values()), "news of pods that are gone"
        )

    def _of_kind(self, wanted: str) -> dict[str, Object]:
        return {name: each for (kind, name), each in self._objects.items() if kind == wanted}

    def _check_followers(self) -> None:
        for follower in self._followers:
            if follower.done():
                follower.result()

    async def _account_made(self) -> None:
        """Where there are controllers for service accounts, no pod is admitted before they have been here."""
        if not (await self.client.list(SERVICE_ACCOUNTS, "default", fields="metadata.name=default")).items:
            return
        accounts = self.client.watch(
            SERVICE_ACCOUNTS, self.namespace, resource_version="0", fields="metadata.name=default"
        )
        async with asyncio.timeout(PATIENCE), aclosing(accounts):
            async for change in accounts:
                if change.object is not None:
                    return

    async def _namespace_gone(self) -> None:
        chosen = f"metadata.name={self.namespace}"
        listing = await self.client.list(NAMESPACES, fields=chosen)
        if not listing.items:
            return
        async with asyncio.timeout(PATIENCE):
            changes = self.client.watch(NAMESPACES, resource_version=listing.resource_version, fields=chosen)
            async with aclosing(changes):
                async for change in changes:
                    if change.type is WatchEventType.DELETED:
                        return
        raise AssertionError("the watch ended before the namespace was gone")


assert JOBS.api_version == API_VERSION
