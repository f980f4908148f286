"""A job of a thousand members comes up, shrinks and goes, with as many writes as that takes and no more."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scenarios.cluster import Site, an_ordinary_user, cluster, operator, real_cluster
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.nodes import paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.tap import Tap, tapped

SIZE, LATER = 1000, 990
NODES = 10
PATIENCE = 60.0
_KIND = re.compile(r"/namespaces/[^/]+/(?P<kind>[a-z]+)(/[^/?]+)?(?P<part>/[a-z]+)?")


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster of one's own, for all that its operator asks is counted."""
    with an_ordinary_user() as user:
        if ground == "embedded":
            with cluster(user, "--no-operator") as started:
                yield started
            return
        with real_cluster(user) as found:
            yield found


@pytest.fixture
async def tap(site: Site) -> AsyncIterator[Tap]:
    """All that an operator asks of the server."""
    async with tapped(site.way_in, lambda text: site.user.write("tapped", text)) as (tap, kubeconfig):
        with operator(replace(site, account=Path(kubeconfig))) as process:
            process.start()
            yield tap


def writes(tap: Tap) -> Counter[str]:
    """How often each kind of write was asked for: `POST pods`, `PATCH aitrainingjobs/status`."""
    counts: Counter[str] = Counter()
    for arrival in tap.arrivals:
        if arrival.method != "GET" and (found := _KIND.search(arrival.path)) is not None:
            counts[f"{arrival.method} {found['kind']}{found['part'] or ''}"] += 1
    return counts


def seconds_since(start: float) -> float:
    return asyncio.get_running_loop().time() - start


@pytest.mark.deep
async def test_a_thousand_members_come_up_shrink_and_go(scene: Scene, tap: Tap) -> None:
    started = asyncio.get_running_loop().time()
    async with paper_nodes(scene, NODES) as nodes:
        seated = nodes.seat(lambda pod: nodes.names[int(pod["metadata"]["name"].rpartition("-")[2]) % NODES])
        worker = nodes.place(group(FOREVER, SIZE, restartPolicy="Never"))
        await scene.submit(job("t", {"worker": worker}, **seated))
        await scene.until(lambda: scene.status("t").get("ready") == f"{SIZE}/{SIZE}", "all running", PATIENCE)
        asked = writes(tap)
        assert (asked["POST pods"], asked["POST services"]) == (SIZE, SIZE)

        await scene.edit("t", {"spec": {"replicas": LATER}}, subresource="scale")
        await scene.until(lambda: scene.status("t").get("ready") == f"{LATER}/{LATER}", "a few less", PATIENCE)
        await scene.until(lambda: len(scene.services) == len(scene.pods) == LATER, "a few gone", PATIENCE)
        assert set(scene.pods) == {f"t-worker-{index}" for index in range(LATER)}
        took = seconds_since(started)

        await scene.delete("t")
        await scene.until(lambda: not (scene.pods or scene.services), "nothing left", PATIENCE)
        asked = writes(tap)
        told = asked.pop("PATCH aitrainingjobs/status")
        events = asked.pop("POST events", 0)
        # Whoever owns the members takes them away when the job is deleted.
        gone = SIZE - LATER
        members = {"POST pods": SIZE, "POST services": SIZE, "DELETE pods": gone, "DELETE services": gone}
        assert asked == {**members, "POST secrets": 1}  # the key of the operator, once for all jobs
        assert told <= took + 6, f"{told} statuses in {took:.0f} s"
        assert events <= 6
