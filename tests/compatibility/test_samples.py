"""The samples of other operators end on Pliant as with their own operators, and docs/compatibility.md says so."""

from __future__ import annotations

import pytest

from pliant.kube.client import KubeClient
from tests.compatibility.archives import ORIGINS, NotDownloaded, Origin
from tests.compatibility.page import PAGE, with_section
from tests.compatibility.samples import samples_of
from tests.compatibility.trial import try_all
from tests.golden.files import check_golden

ENDS = {"kubeflow.org": "Succeeded", "batch.paddlepaddle.org": "Completed", "paddlepaddle.org": "succeeded"}
"""How a job of each group ends with its own operator; that of DLRover says Succeeded."""


@pytest.mark.samples
@pytest.mark.timeout(900)
@pytest.mark.parametrize("origin", ORIGINS, ids=lambda origin: origin.title)
async def test_every_sample_meets_all_its_peers_and_ends_as_with_its_own_operator(
    client: KubeClient, origin: Origin
) -> None:
    try:
        found = samples_of(origin)
    except NotDownloaded as problem:
        pytest.skip(f"the samples of {origin.title} are not downloaded: {problem}")
    ended = await try_all(client, found.tried, prefix=origin.title.lower())
    others = [each for each in ended if each.phase != ENDS.get(each.sample.group, "Succeeded")]
    told = [f"{each.sample.path}: {each.phase}\n{each.story}" for each in others]
    assert not told, "\n".join(told)
    check_golden(PAGE, with_section(PAGE.read_text(), origin, found, ended))
