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

from pliant.cli.input.kinds_option import add_kinds_option

if TYPE_CHECKING:
    from pliant.cli.explain.cluster_checks import DoctorFinding
    from pliant.kube.transport.http import ApiServerEndpoint

EPILOG = """\
Looks at this machine and at the cluster of --kubeconfig, of $KUBECONFIG, of the pod it runs in, or of
~/.kube/config, in that order. Changes nothing. The exit code is 1 when something has to be mended.

examples:
  pliant doctor                                   the current context
  pliant doctor --context staging --namespace team-a
  pliant doctor --kinds paddle                    for an operator that runs these kinds alone
"""

_MESSAGE_INDENT = 17


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
    from pliant.cli.input.kinds_option import choose_kinds

    args.frontends = choose_kinds(args.kinds)
    return asyncio.run(_run_checks(args))


async def _run_checks(args: Namespace) -> int:
    from pliant.cli.explain.cluster_checks import FindingSeverity
    from pliant.errors import ApiError, NoCluster, UserError

    found: list[DoctorFinding] = []
    try:
        async for finding in _collect_findings(args):
            _print_finding(finding)
            found.append(finding)
    except NoCluster as problem:
        return await _examine_without_cluster(str(problem))
    except (ApiError, UserError) as problem:
        return _report_error(problem)
    problems = sum(finding.severity is FindingSeverity.ERROR for finding in found)
    verdict = "All is well." if not problems else f"{problems} problem{'s' * (problems > 1)} to mend."
    sys.stdout.write(f"\n{verdict}\n")
    return 1 if problems else 0


async def _collect_findings(args: Namespace) -> AsyncIterator[DoctorFinding]:
    from pliant.cli.explain.cluster_checks import examine_cluster, examine_machine, examine_plugins
    from pliant.errors import Unauthorized
    from pliant.kube.client import KubeClient
    from pliant.kube.client_config import create_transport
    from pliant.runtime.clock import SystemClock

    now = SystemClock().now
    transport = create_transport(args.kubeconfig, args.context, now)
    try:
        client, endpoint = KubeClient(transport), transport.endpoint
        first = _endpoint_finding(endpoint)
        home = args.lease_namespace or args.namespace or endpoint.default_namespace or "default"
        try:
            async for finding in examine_cluster(client, args.namespace, home, args.frontends):
                if first is not None:
                    yield first
                    first = None
                yield finding
        except Unauthorized as problem:
            raise await _explain_unauthorized(problem, endpoint) from problem
    finally:
        await transport.aclose()
    if (plugins := examine_plugins()) is not None:
        yield plugins
    yield await examine_machine()


def _endpoint_finding(endpoint: ApiServerEndpoint) -> DoctorFinding | None:
    from pliant.cli.explain.cluster_checks import DoctorFinding, FindingSeverity

    place = (
        f"context {endpoint.context_name} of {endpoint.source}" if endpoint.context_name else "the cluster of this pod"
    )
    home = f", namespace {endpoint.default_namespace}" if endpoint.default_namespace else ""
    return DoctorFinding("cluster", FindingSeverity.OK, f"{endpoint.url} ({place}{home})")


async def _explain_unauthorized(error: Exception, endpoint: ApiServerEndpoint) -> Exception:
    """The server's refusal with what we know better than it says."""
    from pliant.errors import Unauthorized
    from pliant.kube.auth.credentials import ANONYMOUS
    from pliant.kube.auth.expiry import describe_expired_credential
    from pliant.runtime.clock import SystemClock

    if getattr(error, "reason", "") == "ExecPluginFailed":
        return error
    shown = await endpoint.credentials.credential() if endpoint.credentials else ANONYMOUS
    over = describe_expired_credential(endpoint.credentials, shown, SystemClock().now())
    refused = over or (
        "it refused the credential shown" if endpoint.credentials else "the kubeconfig names no credential"
    )
    return Unauthorized(401, "Unauthorized", f"{endpoint.url} does not let you in: {refused}")


async def _examine_without_cluster(reason: str) -> int:
    """Without a cluster there is still this machine, which needs none."""
    from pliant.cli.explain.cluster_checks import DoctorFinding, FindingSeverity, examine_machine, examine_plugins

    _print_finding(DoctorFinding("cluster", FindingSeverity.WARNING, reason))
    plugins, machine = examine_plugins(), await examine_machine()
    found = [machine] if plugins is None else [plugins, machine]
    for finding in found:
        _print_finding(finding)
    return 0 if all(finding.severity is FindingSeverity.OK for finding in found) else 1


def _report_error(error: Exception) -> int:
    from pliant.cli.explain.cluster_checks import suggest_connection_fix
    from pliant.cli.output.style import TerminalStyle
    from pliant.errors import ApiError

    said = " ".join(str(error).split())
    cure = f" — {suggest_connection_fix(error)}" if isinstance(error, ApiError) and "expired" not in said else ""
    sys.stderr.write(f"{TerminalStyle.for_stream(sys.stderr).red('error')}: {said}{cure}\n")
    return 1


def _print_finding(finding: DoctorFinding) -> None:
    from pliant.cli.explain.cluster_checks import FindingSeverity
    from pliant.cli.output.style import TerminalStyle

    style = TerminalStyle.for_stream(sys.stdout)
    mark = {
        FindingSeverity.OK: style.green("✓"),
        FindingSeverity.WARNING: style.yellow("!"),
        FindingSeverity.ERROR: style.red("✗"),
    }[finding.severity]
    lines = _wrap_text(finding.message)
    if finding.fix:
        lines += [
            f"{style.bold('→')} {line}" if not n else f"  {line}" for n, line in enumerate(_wrap_text(finding.fix))
        ]
    sys.stdout.write(f"{mark} {finding.topic:<{_MESSAGE_INDENT - 2}}{lines[0]}\n")
    sys.stdout.write("".join(f"{' ' * _MESSAGE_INDENT}{line}\n" for line in lines[1:]))
    sys.stdout.flush()


def _wrap_text(text: str) -> list[str]:
    width = max((_terminal_columns() or 100) - _MESSAGE_INDENT, 40)
    wrapping = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return [part for line in text.splitlines() for part in wrapping.wrap(line)]


def _terminal_columns() -> int:
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
