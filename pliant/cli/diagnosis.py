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

from pliant.cli.kinds import choose_kinds, kinds_argument
from pliant.cli.operator_options import LEASE
from pliant.controllers.definitions import outdated_parts
from pliant.controllers.rights import Right, Where, needed_rights
from pliant.errors import ApiError, Forbidden, NotFound, NotPossibleHere, Unauthorized, Unreachable
from pliant.frontends.base import Frontend, definitions
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, Resource
from pliant.plugins.known import known

OLDEST = (1, 29)
"""The first Kubernetes on which rules in definitions are dependable."""
NEWEST = (1, 36)
"""The last one that Pliant is tested with."""
ROUND_TRIPS = 5
MOST_NAMED = 3

_ACCESS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_SELF = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


class Health(StrEnum):
    """How bad it is."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    topic: str
    health: Health
    what: str
    cure: str = ""


async def examine_cluster(
    client: KubeClient, namespace: str | None, home: str, frontends: Sequence[Frontend] | None = None
) -> AsyncIterator[Finding]:
    """Everything about a cluster; raises `ApiError` at once when it is not there or does not let us in.

    Jobs are in one namespace, or in any; `home` is the one where operators meet. Definitions and rights are those
    of some kinds, or of every kind.
    """
    chosen = choose_kinds(()) if frontends is None else frontends
    version = json.loads(await client.raw("/version"))
    who = await _identity(client)
    yield await _version(client, version)
    yield who
    yield await _definitions(client, chosen)
    yield await _rights(client, namespace, home, chosen)


async def _version(client: KubeClient, told: dict[str, Any]) -> Finding:
    clock = asyncio.get_running_loop().time
    took = []
    for _ in range(ROUND_TRIPS):
        began = clock()
        await client.raw("/version")
        took.append(clock() - began)
    name = told.get("gitVersion") or "of unknown version"
    what = f"Kubernetes {name}, {statistics.median(took) * 1000:.1f} ms away"
    numbers = re.match(r"v?(\d+)\.(\d+)", name)
    if numbers is None:
        return Finding("version", Health.DOUBTFUL, what, "nothing is known about this version")
    found = (int(numbers[1]), int(numbers[2]))
    if found < OLDEST:
        needed = ".".join(map(str, OLDEST))
        return Finding(
            "version", Health.BAD, what, f"upgrade the cluster: Pliant needs Kubernetes {needed} or newer"
        )
    if found > NEWEST:
        tested = ".".join(map(str, NEWEST))
        return Finding("version", Health.GOOD, f"{what} (newer than {tested}, the last one tested)")
    return Finding("version", Health.GOOD, what)


async def _identity(client: KubeClient) -> Finding:
    asked = {"apiVersion": _SELF.api_version, "kind": _SELF.kind}
    try:
        told = (await client.create(_SELF, None, asked))["status"]["userInfo"]
    except (Forbidden, NotFound) as problem:
        return Finding("you are", Health.DOUBTFUL, f"unknown: {problem}")
    groups = ", ".join(group for group in told.get("groups") or () if group != "system:authenticated")
    who = f"{told.get('username')}{f' ({groups})' if groups else ''}"
    if told.get("username") == "system:anonymous":
        return Finding("you are", Health.BAD, who, "the kubeconfig names no credentials that count: log in")
    return Finding("you are", Health.GOOD, who)


async def _definitions(client: KubeClient, frontends: Sequence[Frontend]) -> Finding:
    absent: list[str] = []
    outdated: list[str] = []
    for wanted in (each for frontend in frontends for each in definitions(frontend)):
        name = wanted["metadata"]["name"]
        try:
            parts = outdated_parts(wanted, await client.get(CRDS, None, name))
        except NotFound:
            absent.append(name)
        except Forbidden:
            return await _served(client, frontends)
        else:
            outdated += [f"{name} at {part}" for part in parts]
    if absent:
        cure = f"install them: {_install_command(frontends)}"
        return Finding("definitions", Health.BAD, f"not installed: {_some(absent)}", cure)
    if outdated:
        cure = f"update them: {_install_command(frontends)}"
        return Finding("definitions", Health.BAD, f"of another version: {_some(outdated)}", cure)
    names = ", ".join(sorted({frontend.kind for frontend in frontends}))
    return Finding("definitions", Health.GOOD, f"installed and up to date: {names}")


def _install_command(frontends: Sequence[Frontend]) -> str:
    words = kinds_argument(frontends)
    return f"pliant crds{f' --kinds {words}' if words else ''} | kubectl apply --server-side -f -"


async def _served(client: KubeClient, frontends: Sequence[Frontend]) -> Finding:
    """What can be told of definitions that one may not read."""
    for frontend in frontends:
        try:
            listed = json.loads(await client.raw(f"/apis/{frontend.group}/{frontend.version}"))
        except (NotFound, Forbidden):
            listed = {}
        if frontend.plural not in {entry.get("name") for entry in listed.get("resources") or ()}:
            cure = f"let an administrator install it: {_install_command(frontends)}"
            return Finding("definitions", Health.BAD, f"{frontend.plural}.{frontend.group} is not installed", cure)
    return Finding("definitions", Health.GOOD, "installed; whether up to date, you have no right to see")


async def _rights(client: KubeClient, namespace: str | None, home: str, frontends: Sequence[Frontend]) -> Finding:
    places = {Where.JOBS: namespace, Where.HOME: home, Where.CLUSTER: None}
    asked = [(right, verb) for right in needed_rights(LEASE, frontends) for verb in right.verbs]
    try:
        answers = await asyncio.gather(*(_may(client, right, verb, places[right.where]) for right, verb in asked))
    except Forbidden as problem:
        return Finding("rights", Health.DOUBTFUL, f"cannot be asked for: {problem}")
    missing: dict[Right, list[str]] = {}
    for (right, verb), allowed in zip(asked, answers, strict=True):
        if not allowed:
            missing.setdefault(right, []).append(verb)
    where = f"in namespace {namespace}" if namespace else "in every namespace"
    if not missing:
        return Finding("rights", Health.GOOD, f"all {len(asked)} that the operator needs {where}")
    lacking = (
        f"{right}: {', '.join(verbs)} — {right.why}{_aside(right, home)}" for right, verbs in missing.items()
    )
    what = "\n".join([f"missing {where}:", *lacking])
    health = Health.DOUBTFUL if all(right.is_optional for right in missing) else Health.BAD
    return Finding(
        "rights", health, what, "ask an administrator for these; `pliant install` prints roles with them"
    )


def _aside(right: Right, home: str) -> str:
    if right.is_optional:
        return " (it does without)"
    return f" (in namespace {home})" if right.where is Where.HOME else ""


async def _may(client: KubeClient, right: Right, verb: str, namespace: str | None) -> bool:
    attributes = {"group": right.group, "resource": right.resource, "verb": verb}
    details = {"subresource": right.subresource, "name": right.name, "namespace": namespace}
    attributes |= {name: value for name, value in details.items() if value}
    review = {
        "apiVersion": _ACCESS.api_version,
        "kind": _ACCESS.kind,
        "spec": {"resourceAttributes": attributes},
    }
    return bool((await client.create(_ACCESS, None, review))["status"].get("allowed"))


async def examine_machine() -> Finding:
    """Whether pods can run here, and with namespaces of their own: found out by entering some."""
    from pliant.embedded.modes import mode_started
    from pliant.embedded.node.link import AgentLost, Launch

    try:
        with tempfile.TemporaryDirectory(prefix="pliant-doctor-") as folder:
            async with mode_started(Launch(data=Path(folder)), "") as mode:
                refusal = mode.notice
    except NotPossibleHere as problem:
        return Finding("namespaces", Health.DOUBTFUL, f"`pliant run` and `pliant up` cannot start: {problem}")
    except (AgentLost, OSError, TimeoutError) as problem:
        return Finding("namespaces", Health.DOUBTFUL, f"`pliant run` and `pliant up` may not start: {problem!r}")
    if refusal:
        what, _, cure = refusal.partition(". Allow them with: ")
        return Finding("namespaces", Health.DOUBTFUL, what, f"allow them: {cure}" if cure else "")
    return Finding("namespaces", Health.GOOD, "pods of `pliant run` get networks and folders of their own")


def examine_plugins() -> Finding | None:
    """What packages add to Pliant; None if there are none."""
    found = known()
    if found.problems:
        cure = "mend them, or uninstall them; all else works without"
        return Finding("plugins", Health.BAD, "\n".join(map(_without_title, found.problems)), cure)
    return Finding("plugins", Health.GOOD, ", ".join(found.added)) if found.added else None


def _without_title(problem: str) -> str:
    return problem.removeprefix("plugin ")


def first_aid(problem: ApiError) -> str:
    """What to try when a cluster cannot be examined at all."""
    if isinstance(problem, Unreachable) and "certificate" in str(problem):
        return "the kubeconfig may belong to another cluster, or be outdated: fetch it anew"
    if isinstance(problem, Unreachable):
        return "is the cluster up, and is this its address?"
    if isinstance(problem, Unauthorized):
        return "log in again, or fetch the kubeconfig anew"
    return "ask whoever runs the cluster"


def _some(names: Iterable[str]) -> str:
    named = list(names)
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return ", ".join(named[:MOST_NAMED]) + more
