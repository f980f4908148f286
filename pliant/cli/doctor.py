"""`pliant doctor`: whether everything Pliant needs is there, and what to do where it is not."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.cli.kinds import add_kinds_option

if TYPE_CHECKING:
    from pliant.cli.diagnosis import Finding
    from pliant.kube.http import Endpoint

EPILOG = """\
Looks at this machine and at the cluster of --kubeconfig, of $KUBECONFIG, of the pod it runs in, or of
~/.kube/config, in that order. Changes nothing. The exit code is 1 when something has to be mended.

examples:
  pliant doctor                                   the current context
  pliant doctor --context staging --namespace team-a
  pliant doctor --kinds paddle                    for an operator that runs these kinds alone
"""

_INDENT = 17


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster")
    parser.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")
    parser.add_argument("--namespace", metavar="NAME", help="rights in this namespace alone (everywhere)")
    parser.add_argument("--lease-namespace", metavar="NAME", help="where operators agree on a leader (the same)")
    add_kinds_option(parser)


def execute(args: Namespace) -> int:
    """Look, tell, and judge."""
    from pliant.cli.kinds import choose_kinds

    args.frontends = choose_kinds(args.kinds)
    return asyncio.run(_examine(args))


async def _examine(args: Namespace) -> int:
    from pliant.cli.diagnosis import Health
    from pliant.errors import ApiError, NoCluster, UserError

    found: list[Finding] = []
    try:
        async for finding in _findings(args):
            _show(finding)
            found.append(finding)
    except NoCluster as problem:
        return await _examine_alone(str(problem))
    except (ApiError, UserError) as problem:
        return _fail(problem)
    problems = sum(finding.health is Health.BAD for finding in found)
    verdict = "All is well." if not problems else f"{problems} problem{'s' * (problems > 1)} to mend."
    sys.stdout.write(f"\n{verdict}\n")
    return 1 if problems else 0


async def _findings(args: Namespace) -> AsyncIterator[Finding]:
    from pliant.cli.diagnosis import examine_cluster, examine_machine, examine_plugins
    from pliant.errors import Unauthorized
    from pliant.kube.client import KubeClient
    from pliant.kube.config import transport_for
    from pliant.runtime.clock import SystemClock

    now = SystemClock().now
    transport = transport_for(args.kubeconfig, args.context, now)
    try:
        client, endpoint = KubeClient(transport), transport.endpoint
        first = _address(endpoint)
        home = args.lease_namespace or args.namespace or endpoint.namespace or "default"
        try:
            async for finding in examine_cluster(client, args.namespace, home, args.frontends):
                if first is not None:
                    yield first
                    first = None
                yield finding
        except Unauthorized as problem:
            raise await _explained(problem, endpoint) from problem
    finally:
        await transport.aclose()
    if (plugins := examine_plugins()) is not None:
        yield plugins
    yield await examine_machine()


def _address(endpoint: Endpoint) -> Finding | None:
    from pliant.cli.diagnosis import Finding, Health

    place = f"context {endpoint.context} of {endpoint.found_in}" if endpoint.context else "the cluster of this pod"
    home = f", namespace {endpoint.namespace}" if endpoint.namespace else ""
    return Finding("cluster", Health.GOOD, f"{endpoint.url} ({place}{home})")


async def _explained(problem: Exception, endpoint: Endpoint) -> Exception:
    """The server's refusal with what we know better than it says."""
    from pliant.errors import Unauthorized
    from pliant.kube.login import NOBODY
    from pliant.kube.validity import expired_part
    from pliant.runtime.clock import SystemClock

    if getattr(problem, "reason", "") == "Login":
        return problem
    shown = await endpoint.login.credential() if endpoint.login else NOBODY
    over = expired_part(endpoint.login, shown, SystemClock().now())
    refused = over or (
        "it refused the credential shown" if endpoint.login else "the kubeconfig names no credential"
    )
    return Unauthorized(401, "Unauthorized", f"{endpoint.url} does not let you in: {refused}")


async def _examine_alone(why: str) -> int:
    """Without a cluster there is still this machine, which needs none."""
    from pliant.cli.diagnosis import Finding, Health, examine_machine, examine_plugins

    _show(Finding("cluster", Health.DOUBTFUL, why))
    plugins, machine = examine_plugins(), await examine_machine()
    found = [machine] if plugins is None else [plugins, machine]
    for finding in found:
        _show(finding)
    return 0 if all(finding.health is Health.GOOD for finding in found) else 1


def _fail(problem: Exception) -> int:
    from pliant.cli.diagnosis import first_aid
    from pliant.cli.style import Style
    from pliant.errors import ApiError

    said = " ".join(str(problem).split())
    cure = f" — {first_aid(problem)}" if isinstance(problem, ApiError) and "expired" not in said else ""
    sys.stderr.write(f"{Style.of(sys.stderr).red('error')}: {said}{cure}\n")
    return 1


def _show(finding: Finding) -> None:
    from pliant.cli.diagnosis import Health
    from pliant.cli.style import Style

    style = Style.of(sys.stdout)
    mark = {
        Health.GOOD: style.green("✓"),
        Health.DOUBTFUL: style.yellow("!"),
        Health.BAD: style.red("✗"),
    }[finding.health]
    lines = _wrapped(finding.what)
    if finding.cure:
        lines += [
            f"{style.bold('→')} {line}" if not n else f"  {line}" for n, line in enumerate(_wrapped(finding.cure))
        ]
    sys.stdout.write(f"{mark} {finding.topic:<{_INDENT - 2}}{lines[0]}\n")
    sys.stdout.write("".join(f"{' ' * _INDENT}{line}\n" for line in lines[1:]))
    sys.stdout.flush()


def _wrapped(text: str) -> list[str]:
    width = max((_columns() or 100) - _INDENT, 40)
    wrapping = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return [part for line in text.splitlines() for part in wrapping.wrap(line)]


def _columns() -> int:
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
