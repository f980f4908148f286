"""`pliant get`: where jobs stand, one line each."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.output import add_output_option
from pliant.cli.target import WHICH_CLUSTER, add_target_options

if TYPE_CHECKING:
    from datetime import datetime

    from pliant.cli.jobs import Found
    from pliant.cli.table import Table
    from pliant.cli.target import Target

EPILOG = f"""\
{WHICH_CLUSTER}
examples:
  pliant get                       the jobs of this namespace
  pliant get -A                    of all namespaces
  pliant get bert -o yaml          one, with everything that is known about it
  pliant get --watch               and a line for whatever changes, until Ctrl-C
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME (all)")
    parser.add_argument("--watch", "-w", action="store_true", help="go on telling what changes")
    add_output_option(parser)
    add_target_options(parser, everywhere=True)


def execute(args: Namespace) -> int:
    """Tell, and go on telling if asked to."""
    return asyncio.run(_get(args))


async def _get(args: Namespace) -> int:
    from pliant.cli.jobs import all_jobs, named_jobs
    from pliant.cli.target import connected

    async with connected(args) as target:
        jobs = await (named_jobs(target, args.jobs) if args.jobs else all_jobs(target))
        table = _new_table(args)
        if args.watch:
            table.fit([["Terminating" if title == "PHASE" else "" for title in table.titles]])
        _show(args, jobs, table)
        if args.watch:
            await _watch(args, target, jobs, table)
    return 0


def _show(args: Namespace, jobs: list[Found], table: Table) -> None:
    from pliant.cli.output import print_objects
    from pliant.runtime.clock import SystemClock

    if args.output == "name":
        sys.stdout.write("".join(f"{one.title}\n" for one in jobs))
    elif args.output in ("json", "yaml"):
        print_objects(args.output, [one.raw for one in jobs], is_one=len(args.jobs) == 1)
    elif not jobs and not args.watch:
        where = "" if args.all_namespaces else " in this namespace; -A looks in all of them"
        sys.stderr.write(f"no jobs{where}\n")
    else:
        now = SystemClock().now()
        sys.stdout.write("\n".join(table.lines(_row(args, one, now) for one in jobs)) + "\n")
    sys.stdout.flush()


def _new_table(args: Namespace) -> Table:
    from pliant.cli.style import Style
    from pliant.cli.table import Table, width_of

    titles = ["NAME", "PHASE", "READY", "RESTARTS", "SIZE", "AGE", "MESSAGE"]
    if args.output == "wide":
        titles[6:6] = ["KIND", "STARTED", "ENDED", "FIRST CAUSE"]
    if args.all_namespaces:
        titles.insert(0, "NAMESPACE")
    return Table(titles, Style.of(sys.stdout), width_of(sys.stdout) if args.output != "wide" else 0)


def _row(args: Namespace, one: Found, now: datetime) -> list[str]:
    from pliant.cli.durations import age_text
    from pliant.cli.jobs import known_as
    from pliant.cli.results import failure_brief, message_with_progress

    def ago(moment: datetime | None) -> str:
        return age_text(now - moment) if moment else "–"

    state = one.state
    row = [one.key.name, one.phase, _ready(one), str(state.restarts if state else 0), sizes_text(one)]
    row.append(ago(one.created_at))
    if args.output == "wide":
        row += [
            known_as(one.frontend, one.frontend.kind),
            ago(state.running_at if state else None),
            ago(state.ended_at if state else None),
            failure_brief(state.first_cause) if state and state.first_cause else "–",
        ]
    return ([one.key.namespace] if args.all_namespaces else []) + [*row, message_with_progress(one)]


def _ready(one: Found) -> str:
    """How many run of those wanted, and how many are done: `1/2, 1 done`."""
    groups = [group for group in one.job.groups if not group.is_control] if one.job else []
    masters = {group.name for group in one.job.groups if group.is_control} if one.job else set()
    counts = [each for name, each in one.state.counts.items() if name not in masters] if one.state else []
    size = sum(each.size for each in counts) or sum(group.size for group in groups)
    done = sum(each.succeeded for each in counts)
    if done and done == size:
        return f"{done}/{size} done"
    return f"{sum(each.active for each in counts)}/{size}" + (f", {done} done" if done else "")


def sizes_text(one: Found) -> str:
    """The size of each group, and its bounds where it has some: `ps 1, worker 2 [1–4]`."""
    from pliant.cli.sizes import bounds_text
    from pliant.engine.sizing import sized

    if one.job is None:
        return "–"
    job = sized(one.job, one.job.state) if one.job.state else one.job
    return ", ".join(
        f"{group.name} {group.size}" + (f" [{bounds}]" if (bounds := bounds_text(group)) else "")
        for group in job.groups
        if not group.is_control
    )


async def _watch(args: Namespace, target: Target, jobs: list[Found], table: Table) -> None:
    """A line for every change that shows, until somebody ends it."""
    from pliant.cli.heartbeat import heartbeat
    from pliant.cli.jobs import found
    from pliant.plugins.known import kinds

    told = {one.uid: _news(args, one) for one in jobs}
    wanted = {one.uid for one in jobs} if args.jobs else None

    def tell(frontend: Any, raw: dict[str, Any], is_gone: bool) -> None:
        one = found(frontend, {"apiVersion": _version(frontend), "kind": frontend.kind, **raw})
        if wanted is not None and one.uid not in wanted:
            return
        news = ["gone"] if is_gone else _news(args, one)
        if told.get(one.uid) != news:
            told[one.uid] = news
            _tell(args, one, table, is_gone)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(heartbeat(target.client))
        for frontend in kinds().values():
            tasks.create_task(_follow(target, frontend, tell))


async def _follow(target: Target, frontend: Any, tell: Any) -> None:
    from pliant.controllers.job import resource_of
    from pliant.errors import NotFound
    from pliant.kube.informer import Informer

    resource = resource_of(frontend)
    try:
        await target.client.list(resource, target.namespace)
    except NotFound:
        return  # the cluster does not know this kind

    def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        tell(frontend, new or old, new is None)

    await Informer(target.client, resource, dict, namespace=target.namespace, on_change=changed).run()


def _version(frontend: Any) -> str:
    return f"{frontend.group}/{frontend.version}"


def _news(args: Namespace, one: Found) -> Any:
    """What a line tells of a job besides how old it is."""
    from pliant.runtime.clock import SystemClock

    if args.output in ("json", "yaml"):
        return one.raw
    now = one.created_at or SystemClock().now()
    return _row(args, one, now)


def _tell(args: Namespace, one: Found, table: Table, is_gone: bool) -> None:
    from pliant.cli.output import print_objects
    from pliant.runtime.clock import SystemClock

    if args.output == "name":
        sys.stdout.write(f"{one.title}\n")
    elif args.output in ("json", "yaml"):
        print_objects(args.output, [one.raw], is_one=True)
    else:
        row = _row(args, one, SystemClock().now())
        row[-1] = "deleted" if is_gone else row[-1]
        sys.stdout.write(f"{table.row(row)}\n")
    sys.stdout.flush()
