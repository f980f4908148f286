"""`pliant doctor`: checks that a cluster and this machine meet the requirements of Pliant."""

from __future__ import annotations

import os
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.cli.input.kinds_option import add_kinds_option, choose_kinds
from pliant.cli.output.style import TerminalStyle
from pliant.errors import ApiError, ExpiredCredentials, NoCluster, Unauthorized, UserError
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from pliant.cli.explain.cluster_checks import DoctorFinding
    from pliant.kube.transport.http import ApiServerEndpoint

DESCRIPTION = "Check that a cluster and this machine meet the requirements of Pliant, without changing anything."
EPILOG = """\
The cluster is taken from --kubeconfig, $KUBECONFIG, the service account of this pod or ~/.kube/config, in that order.
The exit code is 1 if a check finds a problem.

examples:
  pliant doctor                                   check the cluster of the current context
  pliant doctor --context staging --namespace team-a
  pliant doctor --kinds paddle                    check for an operator that runs only these kinds
"""

_MESSAGE_INDENT = 17


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="Path of the kubeconfig file")
    parser.add_argument("--context", metavar="NAME", help="Context of the kubeconfig")
    parser.add_argument("--namespace", metavar="NAME", help="Check permissions in this namespace only")
    parser.add_argument("--lease-namespace", metavar="NAME", help="Namespace of the leader lease")
    add_kinds_option(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.explain.cluster_checks import FindingSeverity

    args.frontends = choose_kinds(args.kinds)
    findings: list[DoctorFinding] = []
    try:
        async for finding in _collect_findings(args):
            _print_finding(finding)
            findings.append(finding)
    except NoCluster as error:
        return await _examine_without_cluster(str(error))
    except (ApiError, UserError) as error:
        return _report_error(error)
    problems = sum(finding.severity is FindingSeverity.ERROR for finding in findings)
    summary = f"{problems} problem{'s' * (problems > 1)} found." if problems else "All checks passed."
    sys.stdout.write(f"\n{summary}\n")
    return 1 if problems else 0


async def _collect_findings(args: Namespace) -> AsyncIterator[DoctorFinding]:
    from pliant.cli.explain.cluster_checks import examine_cluster, examine_plugins, examine_pod_isolation
    from pliant.kube.client import KubeClient
    from pliant.kube.client_config import create_transport

    now = SystemClock().now
    transport = create_transport(args.kubeconfig, args.context, now)
    try:
        client, endpoint = KubeClient(transport), transport.endpoint
        is_first = True
        lease_namespace = args.lease_namespace or args.namespace or endpoint.default_namespace or "default"
        try:
            async for finding in examine_cluster(client, args.namespace, lease_namespace, args.frontends):
                if is_first:  # only once the API server has responded
                    yield _endpoint_finding(endpoint)
                    is_first = False
                yield finding
        except Unauthorized as error:
            raise await _explain_unauthorized(error, endpoint) from error
    finally:
        await transport.aclose()
    if (plugins := examine_plugins()) is not None:
        yield plugins
    yield await examine_pod_isolation()


def _endpoint_finding(endpoint: ApiServerEndpoint) -> DoctorFinding:
    from pliant.cli.explain.cluster_checks import DoctorFinding, FindingSeverity

    source = f"context {endpoint.context_name} of {endpoint.source}" if endpoint.context_name else "cluster of this pod"
    namespace = f", namespace {endpoint.default_namespace}" if endpoint.default_namespace else ""
    return DoctorFinding("cluster", FindingSeverity.OK, f"{endpoint.url} ({source}{namespace})")


async def _explain_unauthorized(error: Exception, endpoint: ApiServerEndpoint) -> Exception:
    """Return the error with the details that the API server does not give."""
    from pliant.kube.auth.credentials import ANONYMOUS_CREDENTIAL
    from pliant.kube.auth.expiry import describe_expired_credential

    if getattr(error, "reason", "") == "ExecPluginFailed":
        return error
    credential = await endpoint.credentials.credential() if endpoint.credentials else ANONYMOUS_CREDENTIAL
    expired = describe_expired_credential(endpoint.credentials, credential, SystemClock().now())
    reason = expired or ("the credential was rejected" if endpoint.credentials else "the kubeconfig has no credential")
    error_type = ExpiredCredentials if expired else Unauthorized
    return error_type(401, "Unauthorized", f"{endpoint.url} rejected the request as unauthorized: {reason}")


async def _examine_without_cluster(reason: str) -> int:
    """Check only this machine."""
    from pliant.cli.explain.cluster_checks import DoctorFinding, FindingSeverity, examine_plugins, examine_pod_isolation

    _print_finding(DoctorFinding("cluster", FindingSeverity.WARNING, reason))
    plugins, machine = examine_plugins(), await examine_pod_isolation()
    findings = [machine] if plugins is None else [plugins, machine]
    for finding in findings:
        _print_finding(finding)
    return 0 if all(finding.severity is FindingSeverity.OK for finding in findings) else 1


def _report_error(error: Exception) -> int:
    from pliant.cli.explain.cluster_checks import suggest_connection_fix

    message, is_explained = " ".join(str(error).split()), isinstance(error, ExpiredCredentials)
    fix = f" — {suggest_connection_fix(error)}" if isinstance(error, ApiError) and not is_explained else ""
    sys.stderr.write(f"{TerminalStyle.for_stream(sys.stderr).red('error')}: {message}{fix}\n")
    return 1


def _print_finding(finding: DoctorFinding) -> None:
    from pliant.cli.explain.cluster_checks import FindingSeverity

    style = TerminalStyle.for_stream(sys.stdout)
    mark = {
        FindingSeverity.OK: style.green("✓"),
        FindingSeverity.WARNING: style.yellow("!"),
        FindingSeverity.ERROR: style.red("✗"),
    }[finding.severity]
    lines = _wrap_text(finding.message)
    if finding.fix:
        first, *rest = _wrap_text(finding.fix)
        lines += [f"{style.bold('→')} {first}", *(f"  {line}" for line in rest)]
    sys.stdout.write(f"{mark} {finding.topic:<{_MESSAGE_INDENT - 2}}{lines[0]}\n")
    sys.stdout.write("".join(f"{' ' * _MESSAGE_INDENT}{line}\n" for line in lines[1:]))
    sys.stdout.flush()


def _wrap_text(text: str) -> list[str]:
    columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    width = max((columns or 100) - _MESSAGE_INDENT, 40)
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return [part for line in text.splitlines() for part in wrapper.wrap(line)]
