"""Commands that wait for news end when the cluster does not answer any more."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pliant.cli.cluster import waiting as module
from pliant.cli.cluster.waiting import ClusterLost, raise_when_unreachable
from pliant.errors import Forbidden, PliantError, ServerError, Unreachable
from pliant.kube.client import KubeClient


class Answers:
    """A client whose server gives these answers, and none after them."""

    def __init__(self, *answers: bytes | PliantError) -> None:
        self._answers = list(answers)

    async def get_raw(self, path: str) -> bytes:
        assert path == "/version"
        if not self._answers:
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, PliantError):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (Unreachable("Connection refused"), "the cluster does not respond any more: Connection refused"),
        (ServerError(503, "", "shutting down"), "the cluster does not respond any more: shutting down"),
        (None, "the cluster did not respond within 0.05 seconds"),
    ],
)
async def test_a_cluster_is_lost_when_it_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, last: PliantError | None, words: str
) -> None:
    monkeypatch.setattr(module, "REACHABILITY_CHECK_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(module, "REACHABILITY_TIMEOUT_SECONDS", 0.05)
    refusal = Forbidden(403, "Forbidden", "no")  # an answer, too
    client = Answers(b"{}", refusal, *([last] if last else []))
    with pytest.raises(ClusterLost) as lost:
        await raise_when_unreachable(cast(KubeClient, client))
    assert str(lost.value) == words
