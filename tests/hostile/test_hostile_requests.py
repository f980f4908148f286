"""Requests with hostile parts: each gets an answer, and nothing is damaged."""

from __future__ import annotations

import random

import pytest

from tests.depth import sample
from tests.edits.stage import PATIENCE
from tests.hostile.requests import hostile_request
from tests.hostile.stage import HOSTILE, cluster, no_tracebacks
from tests.virtual_time import on_virtual_time, passing

BATCH = 100
BATCHES = 100
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("batch", sample(range(BATCHES), 4, "hostile requests"))
@on_virtual_time
async def test_a_hostile_request_is_answered_and_damages_nothing(batch: int) -> None:
    rng = random.Random(f"hostile requests {batch}")
    with no_tracebacks():
        async with cluster() as stage:
            # Nodes that run no processes measure no usage.
            served = [kind for kind in stage.api.registry.kinds() if kind.group != "metrics.k8s.io"]
            kinds = sorted(served, key=lambda kind: (kind.api_version, kind.plural))
            for _ in range(BATCH):
                request = hostile_request(kinds, HOSTILE, rng)
                reply = await stage.send_request(request)
                # Like Kubernetes, the server lets a client wait for a version that it does not have yet, and refuses
                # some values with 500. An unexpected error would be an exception here.
                is_early = reply.status == 504 and "resourceVersion" in request.query
                assert 200 <= reply.status <= 500 or is_early, (
                    request.method,
                    request.path,
                    request.query,
                    request.body[:300],
                    reply.body,
                )
            await passing(PATIENCE)
            for kind in kinds:
                prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
                for accept in ("application/json", TABLE) if "list" in kind.verbs else ():
                    listed = await stage.send("GET", f"{prefix}/{kind.plural}", accept=accept)
                    assert listed.status == 200, (kind.plural, listed.body[:300])
            await stage.check_honest_tenant(f"honest-{batch}")
