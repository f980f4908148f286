"""The rules of our own kinds refuse on the embedded API server what they refuse on a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.kube.client import KubeClient
from tests.depth import sample
from tests.embedded.serving import serving
from tests.real import test_edit_rules as edits


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with serving() as server:
        await install_crds(server.client)
        yield server.client


@pytest.mark.parametrize("name", sample(edits.KINDS, 2, "edit rules"))
async def test_an_active_job_keeps_what_the_operator_would_not_change(client: KubeClient, name: str) -> None:
    await edits.test_an_active_job_keeps_what_the_operator_would_not_change(client, name)


@pytest.mark.parametrize("name", sample(edits.KINDS, 2, "edit rules while suspended"))
async def test_whoever_suspends_or_resumes_a_job_may_change_it_too(client: KubeClient, name: str) -> None:
    await edits.test_whoever_suspends_or_resumes_a_job_may_change_it_too(client, name)


@pytest.mark.parametrize("name", sample(edits.KINDS, 2, "edit rules at the end"))
async def test_a_job_that_has_not_begun_or_has_ended_may_be_edited(client: KubeClient, name: str) -> None:
    await edits.test_a_job_that_has_not_begun_or_has_ended_may_be_edited(client, name)


async def test_bounds_that_exclude_each_other_are_refused(client: KubeClient) -> None:
    await edits.test_bounds_that_exclude_each_other_are_refused(client)
