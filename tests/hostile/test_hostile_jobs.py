"""Jobs with hostile values: refused with a reason or run truthfully, at creation and as edits of a running job."""

from __future__ import annotations

import random

import pytest

from pliant.controllers.job import resource_of
from pliant.errors import NotFound
from pliant.frontends import FRONTENDS
from pliant.kube.resources import PODS
from tests.depth import sample
from tests.edits.jobs import KINDS, KindKey, Raw, job_of
from tests.edits.stage import PATIENCE
from tests.hostile.objects import Mutation, mutated, mutations, schema_of
from tests.hostile.stage import HOSTILE, Cluster, cluster, no_tracebacks
from tests.hostile.truth import check_status
from tests.virtual_time import on_virtual_time, passing

BATCH = 25
BATCHES = 400
"""Half of them create hostile jobs, half of them edit running jobs: 20,000 jobs and edits with those of requests."""
REFUSALS = (400, 403, 404, 409, 413, 422, 500)
"""With 500, API servers refuse some values, such as versions of new objects; a crash would be an exception here."""


async def submit(stage: Cluster, number: int, seed: str) -> tuple[KindKey, str, list[Mutation]] | None:
    """Create one hostile job; None if the server refuses it."""
    rng = random.Random(f"{seed} {number}")
    kind = KINDS[rng.randrange(len(KINDS))]
    hostile = mutations(schema_of(kind), job_of(kind), rng)
    raw = mutated(job_of(kind), hostile)
    name = f"job-{number}"
    if isinstance(raw.get("metadata"), dict):
        raw["metadata"] = {**raw["metadata"], "name": name, "namespace": HOSTILE}
    path = resource_of(FRONTENDS[kind]).path(HOSTILE)
    reply = await stage.send_object("POST", path, raw)
    assert reply.status in (201, *REFUSALS), ([*map(str, hostile)], reply.body[:300])
    return (kind, name, hostile) if reply.status == 201 else None


async def edit(stage: Cluster, number: int, seed: str) -> tuple[KindKey, str, list[Mutation]]:
    """Edit one running job; the server may refuse the edit."""
    rng = random.Random(f"{seed} {number}")
    kind = KINDS[rng.randrange(len(KINDS))]
    jobs, name = resource_of(FRONTENDS[kind]), f"job-{number}"
    await stage.client.create(jobs, HOSTILE, {**job_of(kind), "metadata": {"name": name, "namespace": HOSTILE}})
    await passing(PATIENCE / 5)
    current: Raw = dict(await stage.client.get(jobs, HOSTILE, name))
    hostile = mutations(schema_of(kind), current, rng)
    current = mutated(current, hostile)
    if isinstance(current.get("metadata"), dict):
        current["metadata"] = {**current["metadata"], "name": name, "namespace": HOSTILE}
    reply = await stage.send_object("PUT", jobs.path(HOSTILE, name), current)
    assert reply.status in (200, *REFUSALS), ([*map(str, hostile)], reply.body[:300])
    subresource = await stage.send_object("PUT", jobs.path(HOSTILE, name, "status"), current)
    assert subresource.status in (200, *REFUSALS), ([*map(str, hostile)], subresource.body[:300])
    return kind, name, hostile


async def check(stage: Cluster, kind: KindKey, name: str, hostile: list[Mutation]) -> None:
    """The status of a job tells the truth, and the job can be deleted."""
    try:
        await check_status(stage, kind, name)
    except NotFound:
        pass  # a ttl or a clean-up that the spec asks for
    except Exception as error:
        error.add_note(f"{kind[1]}.{kind[0]} {name}: {[*map(str, hostile)]}")
        raise


async def delete(stage: Cluster, kind: KindKey, name: str) -> None:
    path = resource_of(FRONTENDS[kind]).path(HOSTILE, name)
    freed = await stage.send(
        "PATCH", path, b'{"metadata":{"finalizers":null}}', content_type="application/merge-patch+json"
    )
    assert freed.status in (200, 404, 422), freed.body[:300]
    assert (await stage.send("DELETE", path)).status in (200, 404)


@pytest.mark.parametrize("batch", sample(range(BATCHES), 6, "hostile jobs"))
@on_virtual_time
async def test_a_hostile_job_or_edit_is_refused_or_reaches_a_true_status(batch: int) -> None:
    seed = f"hostile jobs {batch}"
    with no_tracebacks():
        async with cluster(is_lax=batch % 3 == 0) as stage:
            numbers = range(batch * BATCH, (batch + 1) * BATCH)
            if batch % 2:
                accepted = [await edit(stage, number, seed) for number in numbers]
            else:
                accepted = [each for number in numbers if (each := await submit(stage, number, seed))]
            await passing(PATIENCE)
            await stage.check_honest_tenant(f"honest-{batch}")
            for kind, name, hostile in accepted:
                await check(stage, kind, name, hostile)
            for kind, name, _ in accepted:
                await delete(stage, kind, name)
            await passing(6 * PATIENCE)
            left = [pod["metadata"]["name"] for pod in (await stage.client.list(PODS, HOSTILE)).items]
            assert left == []
