"""Finds jobs of all kinds by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from pliant.cli.cluster.target import ClusterTarget
from pliant.controllers.job import resource_of
from pliant.errors import Forbidden, InvalidSpec, NotFound, UserError
from pliant.frontends.accepted_spec import parse_stored_job
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.engine_state import raw_status
from pliant.kube.resources import Resource
from pliant.model.english import render
from pliant.model.job import Job, JobKey
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.model.messages import MessageReason
from pliant.model.state import EngineState, JobPhase
from pliant.plugins.registry import registered_kinds

T = TypeVar("T")

INVALID_SPEC_PHASE = "Invalid"  # the phase shown for a job with an invalid spec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObject:
    """A job as the API server returns it."""

    frontend: Frontend
    raw: Mapping[str, Any]
    job: Job | None
    state: EngineState | None  # None if no operator has reconciled the job yet
    parse_error: str = ""  # empty if the spec is valid
    rejection: str = ""  # why the latest edit was rejected; then `job` is that of the last accepted spec

    @property
    def key(self) -> JobKey:
        meta = self.raw["metadata"]
        return JobKey(meta.get("namespace", ""), meta["name"])

    @property
    def uid(self) -> str:
        return str(self.raw["metadata"].get("uid", ""))

    @property
    def resource(self) -> Resource:
        return resource_of(self.frontend)

    @property
    def qualified_name(self) -> str:
        """The name as kubectl prints it: `aitrainingjob.elasticdeeplearning.ai/bert`."""
        return f"{self.frontend.kind.lower()}.{self.frontend.group}/{self.key.name}"

    @property
    def phase(self) -> str:
        if self.parse_error:
            return INVALID_SPEC_PHASE
        phase = self.state.phase if self.state else raw_status(self.raw).get("phase")
        return str(phase or JobPhase.PENDING)

    @property
    def message(self) -> str:
        if self.parse_error:
            return self.parse_error
        if self.job is not None and self.job.managed_by not in ("", MANAGED_BY_VALUE):
            return f"managed by {self.job.managed_by} ({self.frontend.run_policy_path}.managedBy)"
        text = render(self.state.message) if self.state else "not reconciled by an operator yet"
        return f"{text}; the latest edit is rejected: {self.rejection}" if self.rejection else text

    @property
    def has_all_replicas_running(self) -> bool:
        return self.state is not None and self.state.message.reason == MessageReason.ALL_REPLICAS_RUNNING

    @property
    def created_at(self) -> datetime | None:
        text = str(self.raw["metadata"].get("creationTimestamp") or "")
        return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def parse_job_object(frontend: Frontend, raw: Mapping[str, Any]) -> JobObject:
    """Parse a job; a job with an invalid spec is returned with its parse error and its stored state."""
    try:
        job, state, rejection = parse_stored_job(frontend, raw)
        return JobObject(frontend=frontend, raw=raw, job=job, state=state, rejection=str(rejection or ""))
    except InvalidSpec as error:  # its pods may be running nevertheless
        state = None
        with suppress(InvalidSpec):
            state = frontend.load_state(raw)
        return JobObject(frontend=frontend, raw=raw, job=None, state=state, parse_error=str(error))


async def list_jobs(target: ClusterTarget, frontends: Iterable[Frontend] | None = None) -> list[JobObject]:
    """List the jobs of some kinds, by default of all, by namespace and name."""

    async def list_kind(frontend: Frontend) -> list[JobObject]:
        listing = await target.client.list(resource_of(frontend), target.namespace)
        kind = {"apiVersion": f"{frontend.group}/{frontend.version}", "kind": frontend.kind}
        return [parse_job_object(frontend, {**kind, **raw}) for raw in listing.items]

    kinds = registered_kinds().values() if frontends is None else frontends
    results, forbidden = await _query_each_kind(kinds, list_kind)
    if forbidden is not None and not results:
        raise forbidden
    if not results:
        raise UserError("the cluster serves no job kind; install the CRDs with `pliant crds | kubectl apply -f -`")
    return sorted((job for jobs in results for job in jobs), key=lambda job: (job.key, job.frontend.kind))


async def _query_each_kind(
    frontends: Iterable[Frontend], query: Callable[[Frontend], Awaitable[T]]
) -> tuple[list[T], Forbidden | None]:
    """Query all kinds in parallel; return the results of the served kinds, and an error if one is forbidden."""
    results: list[T] = []
    forbidden: Forbidden | None = None
    for result in await asyncio.gather(*map(query, frontends), return_exceptions=True):
        if isinstance(result, NotFound):
            continue  # the cluster does not serve this kind, or has no such job
        if isinstance(result, Forbidden):
            forbidden = result
        elif isinstance(result, BaseException):
            raise result
        else:
            results.append(result)
    return results, forbidden


async def find_jobs(target: ClusterTarget, names: Sequence[str]) -> list[JobObject]:
    return [await find_job(target, name) for name in names]


async def find_job(target: ClusterTarget, name: str) -> JobObject:
    """Find the job that the user names as `NAME` or `KIND/NAME`."""
    kind, slash, short = name.rpartition("/")
    kinds = frontends_by_name(kind) if slash else list(registered_kinds().values())
    if not short:
        raise UserError(f"`{name}` is not a job name; write NAME or KIND/NAME")

    async def get_job(frontend: Frontend) -> JobObject:
        raw = await target.client.get(resource_of(frontend), target.namespace or target.default_namespace, short)
        return parse_job_object(frontend, raw)

    jobs, forbidden = await _query_each_kind(kinds, get_job)
    if len(jobs) > 1:
        choices = " or ".join(
            f"`{unambiguous_kind_name(job.frontend, job.frontend.kind.lower())}/{short}`" for job in jobs
        )
        raise UserError(f"several jobs are named `{short}`; write {choices}")
    if forbidden is not None and not jobs:
        raise forbidden
    return jobs[0] if jobs else await _raise_job_not_found(target, short)


async def _raise_job_not_found(target: ClusterTarget, name: str) -> JobObject:
    jobs = []
    with suppress(Forbidden):
        jobs = await list_jobs(ClusterTarget(target.client, None, target.default_namespace))
    if all(job.key.namespace != target.namespace for job in jobs):
        jobs += await list_jobs(target)  # the user may have permissions in one namespace only
    names = [job.key.name for job in jobs if job.key.namespace == target.namespace]
    other_namespaces = [job.key.namespace for job in jobs if job.key.name == name]
    if other_namespaces:
        hint = f"it exists in namespace {other_namespaces[0]}: use `-n {other_namespaces[0]}`"
    elif close := get_close_matches(name, names, n=1):
        hint = f"did you mean `{close[0]}`?"
    else:
        hint = f"jobs: {', '.join(names[:8])}" if names else "the namespace has no jobs"
    raise UserError(f"job `{name}` not found in namespace {target.namespace}; {hint}")


def unambiguous_kind_name(frontend: Frontend, kind_name: str) -> str:
    """Return the kind, with its API group if kinds of several groups share the name: `paddlejobs.kubeflow.org`."""
    same_kind = [other for other in registered_kinds().values() if other.kind == frontend.kind]
    return kind_name if len(same_kind) == 1 else f"{kind_name}.{frontend.group}"


def frontends_by_name(kind_name: str) -> list[Frontend]:
    """Return the kinds with this kind, plural or short name, with or without API group."""
    found = [frontend for frontend in registered_kinds().values() if kind_name.lower() in kind_names(frontend)]
    if not found:
        kinds = ", ".join(sorted({frontend.kind for frontend in registered_kinds().values()}))
        raise UserError(f"unknown kind `{kind_name}`; kinds: {kinds}")
    return found


def kind_names(frontend: Frontend) -> set[str]:
    return crd_kind_names(frontend.crd())


def crd_kind_names(crd: Mapping[str, Any]) -> set[str]:
    """Return all names of the kind in lower case: kind, plural and short names, with and without API group."""
    spec = crd["spec"]
    names = {spec["names"]["kind"].lower(), spec["names"]["plural"], *spec["names"].get("shortNames", ())}
    return names | {f"{name}.{spec['group']}" for name in names}
