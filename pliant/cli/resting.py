"""Sets and clears the wish that a job rest, for `pliant suspend` and `pliant resume`."""

from __future__ import annotations

import sys
from argparse import Namespace

from pliant.cli.edits import check_edit, patch_of, suspend_path, with_value
from pliant.cli.jobs import Found, named_jobs
from pliant.cli.target import Target, connected
from pliant.cli.waiting import wait_until
from pliant.errors import UserError
from pliant.model.state import Phase


async def set_resting(args: Namespace, wanted: bool) -> int:
    """Let every job named rest, or go on."""
    async with connected(args) as target:
        jobs = await named_jobs(target, args.jobs)
        for one in jobs:
            if one.state is not None and one.state.phase.is_final:
                raise UserError(f"{one.key.name} has ended ({one.phase}); there is nothing to {_VERBS[wanted]}")
        for one in jobs:
            await _set(target, one, wanted)
        if args.wait:
            for one in jobs:
                await _wait(target, one, wanted, args)
    return 0


_VERBS = {True: "suspend", False: "resume"}


async def _set(target: Target, one: Found, wanted: bool) -> None:
    name = one.key.name
    if one.job is not None and one.job.is_suspended is wanted:
        sys.stdout.write(f"{name}: {'is suspended already' if wanted else 'is not suspended'}\n")
        return
    path = suspend_path(one.frontend)
    check_edit(one.frontend, with_value(one.raw, path, wanted))
    patch = patch_of(path, wanted)
    await target.client.patch(one.resource, one.key.namespace, name, patch, strict=True)
    said = f"suspended; its members leave (pliant resume {name})" if wanted else "resumed; its members come back"
    sys.stdout.write(f"{name}: {said}\n")
    sys.stdout.flush()


async def _wait(target: Target, one: Found, wanted: bool, args: Namespace) -> None:
    latest = await wait_until(
        target, one, _is_resting if wanted else _is_at_work, args.timeout, "at rest" if wanted else "at work"
    )
    if latest is None:
        raise UserError(f"{one.key.name} was deleted meanwhile")
    sys.stdout.write(f"{one.key.name}: {latest.phase}, {latest.message}\n")


def _is_resting(one: Found | None) -> bool:
    if one is None or one.state is None:
        return one is None
    left = sum(each.active + each.pending + each.scheduled for each in one.state.counts.values())
    return one.state.phase.is_final or (
        one.state.phase is Phase.SUSPENDED and one.message == "suspended" and not left
    )


def _is_at_work(one: Found | None) -> bool:
    return one is None or one.phase == Phase.RUNNING or (one.state is not None and one.state.phase.is_final)
