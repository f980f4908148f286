"""A job is looked after and tells the truth, whatever field of it is edited while it runs."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from pliant.errors import Invalid
from pliant.kube.resources import PODS
from tests.depth import IS_DEEP, sample
from tests.edits.effects import Effect, effect_of
from tests.edits.fields import Edit, all_edits, edits_of
from tests.edits.jobs import KINDS, KindKey
from tests.edits.stage import PATIENCE, check_status, check_supervision, running_job, shape_of
from tests.edits.templates import template_edit
from tests.virtual_time import on_virtual_time, passing

REFUSED = (Effect.WHILE_SUSPENDED, Effect.INVALID)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[1]}.{kind[0]}")
@on_virtual_time
async def test_a_job_that_is_not_edited_is_looked_after(kind: KindKey) -> None:
    async with running_job(kind) as stage:
        await check_status(stage)
        await check_supervision(stage)
        await check_status(stage)


@pytest.mark.parametrize("edit", sample(all_edits(), 24, "edited fields"), ids=str)
@on_virtual_time
async def test_a_job_is_looked_after_whatever_field_is_edited(edit: Edit) -> None:
    async with running_job(edit.kind) as stage:
        await stage.replace(edit.applied(await stage.job()))
        assert bool(await stage.rejection()) == (effect_of(edit) in REFUSED)
        await check_status(stage)
        await check_supervision(stage)
        await check_status(stage)


def shows_in_pods(edit: Edit) -> bool | None:
    """Whether pods that are created after an edit differ from those before; None if that is not certain."""
    effect = effect_of(edit)
    if edit.kind[1] == "ElasticJob":
        return None  # the master names the pods
    return True if effect is Effect.IN_NEW_PODS else False if effect in (*REFUSED, Effect.NONE) else None


# The effect of an edit takes a while to find out, so the sample is taken before.
CERTAIN = [edit for edit in sample(all_edits(), 40, "edits in new pods") if shows_in_pods(edit) is not None]


@pytest.mark.parametrize("edit", CERTAIN if IS_DEEP else CERTAIN[:12], ids=str)
@on_virtual_time
async def test_new_pods_show_an_edit_that_is_documented_to_reach_them_and_no_other(edit: Edit) -> None:
    async with running_job(edit.kind) as stage:
        before = await stage.pods()
        await stage.replace(edit.applied(await stage.job()))
        for name in before:
            await stage.client.delete(PODS, "default", name)
        await passing(2 * PATIENCE)
        after = await stage.pods()
        assert after.keys() == before.keys()
        changed = [name for name in before if shape_of(after[name]) != shape_of(before[name])]
        assert bool(changed) == shows_in_pods(edit)


@on_virtual_time
async def test_new_members_of_an_elasticjob_have_the_edited_template() -> None:
    kind = ("elastic.iml.github.io", "ElasticJob")
    async with running_job(kind) as stage:
        [edit] = [each for each in edits_of(kind) if each.name == "replicaSpecs.*.template"]
        await stage.replace(edit.applied(await stage.job()))
        await stage.request_workers("second", 3)
        images = Counter(pod["spec"]["containers"][0].get("image") for pod in (await stage.pods()).values())
        assert (images["train"], images["other"]) == (2, 1)


TEMPLATE_EDITS = 200


@pytest.mark.parametrize("number", sample(range(TEMPLATE_EDITS), 12, "edited templates"))
@on_virtual_time
async def test_a_job_is_looked_after_whatever_in_its_templates_is_edited(number: int) -> None:
    """Half of the servers let anything pass; the others may refuse an edit themselves."""
    edit = template_edit(number)
    async with running_job(edit.kind, is_lax=number % 2 == 0) as stage:
        with suppress(Invalid):
            await stage.replace(edit.applied(await stage.job()))
        await check_status(stage)
        await check_supervision(stage)
        await check_status(stage)
