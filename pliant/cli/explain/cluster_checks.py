"""Examines a cluster and this machine: a finding for each thing that Pliant needs, with a cure where it is ill."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
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
from pliant.plugins.registry import get_registry

MIN_KUBERNETES_VERSION = (1, 29)
"""The first Kubernetes on which rules in definitions are dependable."""
MAX_TESTED_VERSION = (1, 36)
"""The last one that Pliant is tested with."""
LATENCY_SAMPLES = 5
MAX_LISTED_NAMES = 3

_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


class FindingSeverity(StrEnum):
    """How bad it is."""

    OK = "good"
    WARNING = "doubtful"
    ERROR = "bad"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing looked at."""

    topic: str
    severity: FindingSeverity
    message: str
    fix: str = ""


async def examine_cluster(
    client: KubeClient, namespace: str | None, lease_namespace: str, frontends: Sequence[Frontend] | None = None
) -> AsyncIterator[DoctorFinding]:
    """Everything about a cluster; raises `ApiError` at once when it is not there or does not let us in.

    Jobs are in one namespace, or in any; `home` is the one where operators meet. Definitions and rights are those
    of some kinds, or of every kind.
    """
    chosen = choose_kinds(()) if frontends is None else frontends
    version = json.loads(await client.get_raw("/version"))
    who = await _check_identity(client)
    yield await _check_version(client, version)
    yield who
    yield await _check_crds(client, chosen)
    yield await _check_permissions(client, namespace, lease_namespace, chosen)


async def _check_version(client: KubeClient, version_info: dict[str, Any]) -> DoctorFinding:
    clock = asyncio.get_running_loop().time
    took = []
    for _ in range(LATENCY_SAMPLES):
        began = clock()
        await client.get_raw("/version")
        took.append(clock() - began)
    name = version_info.get("gitVersion") or "of unknown version"
    what = f"Kubernetes {name}, {statistics.median(took) * 1000:.1f} ms away"
    numbers = re.match(r"v?(\d+)\.(\d+)", name)
    if numbers is None:
        return DoctorFinding("version", FindingSeverity.WARNING, what, "nothing is known about this version")
    found = (int(numbers[1]), int(numbers[2]))
    if found < MIN_KUBERNETES_VERSION:
        needed = ".".join(map(str, MIN_KUBERNETES_VERSION))
        return DoctorFinding(
            "version", FindingSeverity.ERROR, what, f"upgrade the cluster: Pliant needs Kubernetes {needed} or newer"
        )
    if found > MAX_TESTED_VERSION:
        tested = ".".join(map(str, MAX_TESTED_VERSION))
        return DoctorFinding("version", FindingSeverity.OK, f"{what} (newer than {tested}, the last one tested)")
    return DoctorFinding("version", FindingSeverity.OK, what)


async def _check_identity(client: KubeClient) -> DoctorFinding:
    asked = {"apiVersion": _SELF_REVIEWS.api_version, "kind": _SELF_REVIEWS.kind}
    try:
        told = (await client.create(_SELF_REVIEWS, None, asked))["status"]["userInfo"]
    except (Forbidden, NotFound) as problem:
        return DoctorFinding("you are", FindingSeverity.WARNING, f"unknown: {problem}")
    groups = ", ".join(group for group in told.get("groups") or () if group != "system:authenticated")
    who = f"{told.get('username')}{f' ({groups})' if groups else ''}"
    if told.get("username") == "system:anonymous":
        return DoctorFinding(
            "you are", FindingSeverity.ERROR, who, "the kubeconfig names no credentials that count: log in"
        )
    return DoctorFinding("you are", FindingSeverity.OK, who)


async def _check_crds(client: KubeClient, frontends: Sequence[Frontend]) -> DoctorFinding:
    absent: list[str] = []
    outdated: list[str] = []
    for wanted in (each for frontend in frontends for each in required_crds(frontend)):
        name = wanted["metadata"]["name"]
        try:
            parts = outdated_crd_fields(wanted, await client.get(CRDS, None, name))
        except NotFound:
            absent.append(name)
        except Forbidden:
            return await _check_served_kinds(client, frontends)
        else:
            outdated += [f"{name} at {part}" for part in parts]
    if absent:
        cure = f"install them: {_crd_install_command(frontends)}"
        return DoctorFinding("definitions", FindingSeverity.ERROR, f"not installed: {_abbreviate_names(absent)}", cure)
    if outdated:
        cure = f"update them: {_crd_install_command(frontends)}"
        return DoctorFinding(
            "definitions", FindingSeverity.ERROR, f"of another version: {_abbreviate_names(outdated)}", cure
        )
    names = ", ".join(sorted({frontend.kind for frontend in frontends}))
    return DoctorFinding("definitions", FindingSeverity.OK, f"installed and up to date: {names}")


def _crd_install_command(frontends: Sequence[Frontend]) -> str:
    words = format_kinds_option(frontends)
    return f"pliant crds{f' --kinds {words}' if words else ''} | kubectl apply --server-side -f -"


async def _check_served_kinds(client: KubeClient, frontends: Sequence[Frontend]) -> DoctorFinding:
    """What can be told of definitions that one may not read."""
    for frontend in frontends:
        try:
            listed = json.loads(await client.get_raw(f"/apis/{frontend.group}/{frontend.version}"))
        except (NotFound, Forbidden):
            listed = {}
        if frontend.plural not in {entry.get("name") for entry in listed.get("resources") or ()}:
            cure = f"let an administrator install it: {_crd_install_command(frontends)}"
            return DoctorFinding(
                "definitions", FindingSeverity.ERROR, f"{frontend.plural}.{frontend.group} is not installed", cure
            )
    return DoctorFinding("definitions", FindingSeverity.OK, "installed; whether up to date, you have no right to see")


async def _check_permissions(
    client: KubeClient, namespace: str | None, lease_namespace: str, frontends: Sequence[Frontend]
) -> DoctorFinding:
    places = {
        PermissionScope.JOB_NAMESPACES: namespace,
        PermissionScope.OPERATOR_NAMESPACE: lease_namespace,
        PermissionScope.CLUSTER: None,
    }
    asked = [(right, verb) for right in operator_permissions(DEFAULT_LEASE_NAME, frontends) for verb in right.verbs]
    try:
        answers = await asyncio.gather(
            *(_is_allowed(client, right, verb, places[right.scope]) for right, verb in asked)
        )
    except Forbidden as problem:
        return DoctorFinding("rights", FindingSeverity.WARNING, f"cannot be asked for: {problem}")
    missing: dict[Permission, list[str]] = {}
    for (right, verb), allowed in zip(asked, answers, strict=True):
        if not allowed:
            missing.setdefault(right, []).append(verb)
    where = f"in namespace {namespace}" if namespace else "in every namespace"
    if not missing:
        return DoctorFinding("rights", FindingSeverity.OK, f"all {len(asked)} that the operator needs {where}")
    lacking = (
        f"{right}: {', '.join(verbs)} — {right.purpose}{_permission_note(right, lease_namespace)}"
        for right, verbs in missing.items()
    )
    what = "\n".join([f"missing {where}:", *lacking])
    health = FindingSeverity.WARNING if all(right.is_optional for right in missing) else FindingSeverity.ERROR
    return DoctorFinding(
        "rights", health, what, "ask an administrator for these; `pliant install` prints roles with them"
    )


def _permission_note(right: Permission, lease_namespace: str) -> str:
    if right.is_optional:
        return " (it does without)"
    return f" (in namespace {lease_namespace})" if right.scope is PermissionScope.OPERATOR_NAMESPACE else ""


async def _is_allowed(client: KubeClient, right: Permission, verb: str, namespace: str | None) -> bool:
    attributes = {"group": right.group, "resource": right.resource, "verb": verb}
    details = {"subresource": right.subresource, "name": right.resource_name, "namespace": namespace}
    attributes |= {name: value for name, value in details.items() if value}
    review = {
        "apiVersion": _ACCESS_REVIEWS.api_version,
        "kind": _ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    return bool((await client.create(_ACCESS_REVIEWS, None, review))["status"].get("allowed"))


async def examine_machine() -> DoctorFinding:
    """Whether pods can run here, and with namespaces of their own: found out by entering some."""
    from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
    from pliant.embedded.kubelet.runtime.messages import AgentLost
    from pliant.embedded.network.modes import start_network_mode

    try:
        with tempfile.TemporaryDirectory(prefix="pliant-doctor-") as folder:
            async with start_network_mode(AgentOptions(data_dir=Path(folder)), "") as mode:
                refusal = mode.fallback_notice
    except UnsupportedEnvironment as problem:
        return DoctorFinding(
            "namespaces", FindingSeverity.WARNING, f"`pliant run` and `pliant up` cannot start: {problem}"
        )
    except (AgentLost, OSError, TimeoutError) as problem:
        return DoctorFinding(
            "namespaces", FindingSeverity.WARNING, f"`pliant run` and `pliant up` may not start: {problem!r}"
        )
    if refusal:
        what, _, cure = refusal.partition(". Allow them with: ")
        return DoctorFinding("namespaces", FindingSeverity.WARNING, what, f"allow them: {cure}" if cure else "")
    return DoctorFinding("namespaces", FindingSeverity.OK, "pods of `pliant run` get networks and folders of their own")


def examine_plugins() -> DoctorFinding | None:
    """What packages add to Pliant; None if there are none."""
    found = get_registry()
    if found.problems:
        cure = "mend them, or uninstall them; all else works without"
        return DoctorFinding(
            "plugins", FindingSeverity.ERROR, "\n".join(map(_strip_plugin_prefix, found.problems)), cure
        )
    return DoctorFinding("plugins", FindingSeverity.OK, ", ".join(found.added_plugins)) if found.added_plugins else None


def _strip_plugin_prefix(problem: str) -> str:
    return problem.removeprefix("plugin ")


def suggest_connection_fix(error: ApiError) -> str:
    """What to try when a cluster cannot be examined at all."""
    if isinstance(error, Unreachable) and "certificate" in str(error):
        return "the kubeconfig may belong to another cluster, or be outdated: fetch it anew"
    if isinstance(error, Unreachable):
        return "is the cluster up, and is this its address?"
    if isinstance(error, Unauthorized):
        return "log in again, or fetch the kubeconfig anew"
    return "ask whoever runs the cluster"


def _abbreviate_names(names: Iterable[str]) -> str:
    named = list(names)
    more = f" and {len(named) - MAX_LISTED_NAMES} more" if len(named) > MAX_LISTED_NAMES else ""
    return ", ".join(named[:MAX_LISTED_NAMES]) + more
