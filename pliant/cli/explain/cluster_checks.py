"""The checks of `pliant doctor`: each returns a finding about the cluster or this machine, with a fix."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pliant.cli.input.kinds_option import choose_kinds, format_kinds_option
from pliant.cli.input.operator_options import DEFAULT_LEASE_NAME
from pliant.controllers.crds import outdated_crd_fields
from pliant.controllers.rbac.permissions import Permission, PermissionScope, operator_permissions
from pliant.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable, UnsupportedEnvironment
from pliant.frontends.frontend import Frontend, required_crds
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, Resource
from pliant.plugins.registry import get_plugin_registry

MIN_KUBERNETES_VERSION = (1, 29)  # the first version in which CEL validation rules of CRDs are stable
MAX_TESTED_VERSION = (1, 36)  # the latest version that Pliant is tested with
LATENCY_SAMPLES = 5
MAX_LISTED_CRD_NAMES = 3

_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


class FindingSeverity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    topic: str
    severity: FindingSeverity
    message: str
    fix: str = ""


async def examine_cluster(
    client: KubeClient, namespace: str | None, lease_namespace: str, frontends: Sequence[Frontend] | None = None
) -> AsyncIterator[DoctorFinding]:
    """Yield the findings about a cluster; raise ApiError at once if it is unreachable or rejects the user.

    `namespace` holds the jobs (None: all namespaces), `lease_namespace` the leader lease.
    """
    kinds = choose_kinds(()) if frontends is None else frontends
    version = json.loads(await client.get_raw("/version"))
    identity = await _check_identity(client)
    yield await _check_version(client, version)
    yield identity
    yield await _check_crds(client, kinds)
    yield await _check_permissions(client, namespace, lease_namespace, kinds)


async def _check_version(client: KubeClient, version_info: dict[str, Any]) -> DoctorFinding:
    clock = asyncio.get_running_loop().time
    latencies = []
    for _ in range(LATENCY_SAMPLES):
        started_at = clock()
        await client.get_raw("/version")
        latencies.append(clock() - started_at)
    name = version_info.get("gitVersion") or "(unknown version)"
    message = f"Kubernetes {name}, latency {statistics.median(latencies) * 1000:.1f} ms"
    numbers = re.match(r"v?(\d+)\.(\d+)", name)
    if numbers is None:
        return DoctorFinding("version", FindingSeverity.WARNING, message, "Pliant is not tested with this version")
    version = (int(numbers[1]), int(numbers[2]))
    if version < MIN_KUBERNETES_VERSION:
        fix = f"upgrade the cluster: Pliant requires Kubernetes {'.'.join(map(str, MIN_KUBERNETES_VERSION))} or newer"
        return DoctorFinding("version", FindingSeverity.ERROR, message, fix)
    if version > MAX_TESTED_VERSION:
        message += f" (newer than {'.'.join(map(str, MAX_TESTED_VERSION))}, the latest tested version)"
    return DoctorFinding("version", FindingSeverity.OK, message)


async def _check_identity(client: KubeClient) -> DoctorFinding:
    review = {"apiVersion": _SELF_REVIEWS.api_version, "kind": _SELF_REVIEWS.kind}
    try:
        user = (await client.create(_SELF_REVIEWS, None, review))["status"]["userInfo"]
    except (Forbidden, NotFound) as error:
        return DoctorFinding("user", FindingSeverity.WARNING, f"unknown: {error}")
    groups = ", ".join(group for group in user.get("groups") or () if group != "system:authenticated")
    name = f"{user.get('username')}{f' ({groups})' if groups else ''}"
    if user.get("username") == "system:anonymous":
        return DoctorFinding("user", FindingSeverity.ERROR, name, "the kubeconfig has no valid credentials: log in")
    return DoctorFinding("user", FindingSeverity.OK, name)


async def _check_crds(client: KubeClient, frontends: Sequence[Frontend]) -> DoctorFinding:
    missing: list[str] = []
    outdated: list[str] = []
    for crd in (crd for frontend in frontends for crd in required_crds(frontend)):
        name = crd["metadata"]["name"]
        try:
            fields = outdated_crd_fields(crd, await client.get(CRDS, None, name))
        except NotFound:
            missing.append(name)
        except Forbidden:
            return await _check_served_kinds(client, frontends)
        else:
            outdated += [f"{name} at {field}" for field in fields]
    if missing:
        fix = f"install them: {_crd_install_command(frontends)}"
        return DoctorFinding("CRDs", FindingSeverity.ERROR, f"not installed: {_abbreviate_names(missing)}", fix)
    if outdated:
        fix = f"update them: {_crd_install_command(frontends)}"
        return DoctorFinding("CRDs", FindingSeverity.ERROR, f"not up to date: {_abbreviate_names(outdated)}", fix)
    names = ", ".join(sorted({frontend.kind for frontend in frontends}))
    return DoctorFinding("CRDs", FindingSeverity.OK, f"installed and up to date: {names}")


def _crd_install_command(frontends: Sequence[Frontend]) -> str:
    kinds = format_kinds_option(frontends)
    return f"pliant crds{f' --kinds {kinds}' if kinds else ''} | kubectl apply --server-side -f -"


async def _check_served_kinds(client: KubeClient, frontends: Sequence[Frontend]) -> DoctorFinding:
    """Check the kinds by API discovery, for users who may not read CRDs."""
    for frontend in frontends:
        try:
            listed = json.loads(await client.get_raw(f"/apis/{frontend.group}/{frontend.version}"))
        except (NotFound, Forbidden):
            listed = {}
        if frontend.plural not in {entry.get("name") for entry in listed.get("resources") or ()}:
            fix = f"ask an administrator to install it: {_crd_install_command(frontends)}"
            message = f"{frontend.plural}.{frontend.group} is not installed"
            return DoctorFinding("CRDs", FindingSeverity.ERROR, message, fix)
    return DoctorFinding("CRDs", FindingSeverity.OK, "installed; you may not read CRDs, so their version is unknown")


async def _check_permissions(
    client: KubeClient, namespace: str | None, lease_namespace: str, frontends: Sequence[Frontend]
) -> DoctorFinding:
    namespaces = {
        PermissionScope.JOB_NAMESPACES: namespace,
        PermissionScope.OPERATOR_NAMESPACE: lease_namespace,
        PermissionScope.CLUSTER: None,
    }
    required = operator_permissions(DEFAULT_LEASE_NAME, frontends)
    checks = [(permission, verb) for permission in required for verb in permission.verbs]
    try:
        results = await asyncio.gather(
            *(_is_allowed(client, permission, verb, namespaces[permission.scope]) for permission, verb in checks)
        )
    except Forbidden as error:
        return DoctorFinding("permissions", FindingSeverity.WARNING, f"cannot be checked: {error}")
    missing: dict[Permission, list[str]] = {}
    for (permission, verb), allowed in zip(checks, results, strict=True):
        if not allowed:
            missing.setdefault(permission, []).append(verb)
    scope = f"in namespace {namespace}" if namespace else "in all namespaces"
    if not missing:
        message = f"all {len(checks)} permissions that the operator needs {scope}"
        return DoctorFinding("permissions", FindingSeverity.OK, message)
    lines = (
        f"{permission}: {', '.join(verbs)} — {permission.purpose}{_permission_note(permission, lease_namespace)}"
        for permission, verbs in missing.items()
    )
    is_optional = all(permission.is_optional for permission in missing)
    severity = FindingSeverity.WARNING if is_optional else FindingSeverity.ERROR
    fix = "ask an administrator to grant them; `pliant install` prints roles with these permissions"
    return DoctorFinding("permissions", severity, "\n".join([f"missing {scope}:", *lines]), fix)


def _permission_note(permission: Permission, lease_namespace: str) -> str:
    if permission.is_optional:
        return " (optional)"
    return f" (in namespace {lease_namespace})" if permission.scope is PermissionScope.OPERATOR_NAMESPACE else ""


async def _is_allowed(client: KubeClient, permission: Permission, verb: str, namespace: str | None) -> bool:
    attributes = {"group": permission.group, "resource": permission.resource, "verb": verb}
    details = {"subresource": permission.subresource, "name": permission.resource_name, "namespace": namespace}
    attributes |= {name: value for name, value in details.items() if value}
    review: dict[str, Any] = {"apiVersion": _ACCESS_REVIEWS.api_version, "kind": _ACCESS_REVIEWS.kind}
    review["spec"] = {"resourceAttributes": attributes}
    return bool((await client.create(_ACCESS_REVIEWS, None, review))["status"].get("allowed"))


async def examine_pod_isolation() -> DoctorFinding:
    """Check whether pods can run on this machine with their own namespaces, by creating some."""
    from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
    from pliant.embedded.kubelet.runtime.messages import AgentLost
    from pliant.embedded.network.modes import start_agent_for_mode

    try:
        with tempfile.TemporaryDirectory(prefix="pliant-doctor-") as directory:
            async with start_agent_for_mode(AgentOptions(data_dir=Path(directory)), "") as mode:
                notice = mode.fallback_notice
    except UnsupportedEnvironment as error:
        message = f"`pliant run` and `pliant up` cannot start: {error}"
        return DoctorFinding("namespaces", FindingSeverity.WARNING, message)
    except (AgentLost, OSError, TimeoutError) as error:
        message = f"`pliant run` and `pliant up` may not start: {error!r}"
        return DoctorFinding("namespaces", FindingSeverity.WARNING, message)
    if notice:
        message, _, fix = notice.partition(". Allow them with: ")
        return DoctorFinding("namespaces", FindingSeverity.WARNING, message, f"allow them: {fix}" if fix else "")
    message = "pods of `pliant run` have their own network and mount namespaces"
    return DoctorFinding("namespaces", FindingSeverity.OK, message)


def examine_plugins() -> DoctorFinding | None:
    """Return a finding about installed plugins; None if there are none."""
    registry = get_plugin_registry()
    if registry.skipped_plugin_messages:
        message = "\n".join(problem.removeprefix("plugin ") for problem in registry.skipped_plugin_messages)
        fix = "fix or uninstall them; Pliant works without them"
        return DoctorFinding("plugins", FindingSeverity.ERROR, message, fix)
    plugins = ", ".join(registry.loaded_plugins)
    return DoctorFinding("plugins", FindingSeverity.OK, plugins) if plugins else None


def suggest_connection_fix(error: ApiError) -> str:
    if isinstance(error, Unreachable) and "certificate" in str(error):
        return "the kubeconfig may be outdated or belong to another cluster: fetch it again"
    if isinstance(error, Unreachable):
        return "check that the cluster is running and that the address is right"
    if isinstance(error, Unauthorized):
        return "log in again, or fetch the kubeconfig again"
    return "ask the administrator of the cluster"


def _abbreviate_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED_CRD_NAMES} more" if len(names) > MAX_LISTED_CRD_NAMES else ""
    return ", ".join(names[:MAX_LISTED_CRD_NAMES]) + more
