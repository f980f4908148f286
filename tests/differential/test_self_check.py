"""Two embedded servers give the same answers: the comparison itself finds no differences that are none."""

from __future__ import annotations

from tests.depth import IS_DEEP, SEED
from tests.differential.campaign import run_campaign, shrink_finding
from tests.differential.servers import server_pair

REQUESTS = 1_000 if IS_DEEP else 200


async def test_a_server_does_not_differ_from_itself() -> None:
    async with server_pair(None) as pair:
        summary = await run_campaign(pair, SEED, REQUESTS)
        for finding in summary.findings[:1]:
            steps = await shrink_finding(pair, finding)
            raise AssertionError(f"seed {SEED}: {finding.difference}\n" + "\n".join(map(str, steps)))
    assert summary.total >= REQUESTS
