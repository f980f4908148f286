"""Both servers give the same answers to the sequences of the table, but for the explained differences."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import API_SERVER, ETCD, started
from tests.controlplane.fixtures import require
from tests.depth import IS_DEEP, SEED
from tests.differential.campaign import Summary, run_campaign, run_sequence, shrink_finding
from tests.differential.explanations import EXPLANATIONS
from tests.differential.servers import APISERVER_FLAGS, ServerPair, server_pair
from tests.differential.table import SEQUENCES

pytestmark = pytest.mark.real
REQUESTS = 20_000 if IS_DEEP else 2_500


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[object]:
    """A control plane without controllers, which would change objects between the requests."""
    require(ETCD, API_SERVER)
    with started(controllers=False, flags=APISERVER_FLAGS) as plane:
        yield plane.kubeconfig


async def test_the_sequences_of_the_table_have_the_same_answers(kubeconfig) -> None:  # type: ignore[no-untyped-def]
    async with server_pair(kubeconfig) as pair:
        summary = Summary()
        for steps in SEQUENCES.values():
            await run_sequence(pair, steps, summary)
        await _require_no_findings(pair, summary)
    stale = [each.request for each in EXPLANATIONS if each.request not in summary.explained]
    assert not stale, "no sequence of the table shows these differences any more"


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_random_sequences_have_the_same_answers(kubeconfig) -> None:  # type: ignore[no-untyped-def]
    async with server_pair(kubeconfig) as pair:
        summary = await run_campaign(pair, SEED, REQUESTS)
        await _require_no_findings(pair, summary)


async def _require_no_findings(pair: ServerPair, summary: Summary) -> None:
    texts: list[str] = []
    for findings in summary.groups().values():
        steps = await shrink_finding(pair, findings[0]) if len(texts) < 3 else findings[0].steps[-1:]
        texts.append(f"{findings[0].difference}\n" + "\n".join(f"    {step}," for step in steps))
    assert not texts, f"seed {SEED}:\n" + "\n".join(texts)
