"""Finds the jobs that people name, whatever their kind."""

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
from pliant.frontends.frontend import Frontend
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.kube.resources import Resource
from pliant.model.job import Job, JobKey
from pliant.model.labels import MANAGED_BY_VALUE
from pliant.model.state import EngineState, JobPhase
from pliant.plugins.registry import registered_kinds

T = TypeVar("T")

INVALID_PHASE = "Invalid"
"""What stands for the phase of a job that cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObject:
    """A job as the cluster has it."""

    frontend: Frontend
    raw: Mapping[str, Any]
    job: Job | None
    parse_error: str = ""
    """Why it cannot be understood, if it cannot."""

    @property
    def key(self) -> JobKey:
        """Which job."""
        meta = self.raw["metadata"]
        return JobKey(meta.get("namespace", ""), meta["name"])

    @property
    def uid(self) -> str:
        """Which incarnation of it."""
        return str(self.raw["metadata"].get("uid", ""))

    @property
    def resource(self) -> Resource:
        """Where it is served."""
        return resource_of(self.frontend)

    @property
    def qualified_name(self) -> str:
        """What kubectl calls it: `aitrainingjob.elasticdeeplearning.ai/bert`."""
        return f"{self.frontend.kind.lower()}.{self.frontend.group}/{self.key.name}"

    @property
    def state(self) -> EngineState | None:
        """What the operator remembers of it; None if it has never looked at it."""
        if self.job is not None:
            return self.job.state
        with suppress(InvalidSpec):  # its members may be at work all the same
            return load_state(raw_status(self.raw))
        return None

    @property
    def phase(self) -> str:
        """Where it stands, in one word."""
        if self.parse_error:
            return INVALID_PHASE
        told = self.state.phase if self.state else raw_status(self.raw).get("phase")
        return str(told or JobPhase.PENDING)

    @property
    def message(self) -> str:
        """Where it stands, in a sentence."""
        if self.parse_error:
            return self.parse_error
        if self.job is not None and self.job.managed_by not in ("", MANAGED_BY_VALUE):
            return f"left to {self.job.managed_by} ({self.frontend.run_policy_path}.managedBy)"
        return self.state.message if self.state else "no operator has looked at it yet"

    @property
    def created_at(self) -> datetime | None:
        """When it was made."""
        text = str(self.raw["metadata"].get("creationTimestamp") or "")
        return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def parse_job_object(frontend: Frontend, raw: Mapping[str, Any]) -> JobObject:
    """A raw object as a job; one that cannot be understood is found all the same."""
    try:
        return JobObject(frontend=frontend, raw=raw, job=frontend.parse(raw))
    except InvalidSpec as problem:
        return JobObject(frontend=frontend, raw=raw, job=None, parse_error=str(problem))


async def list_jobs(target: ClusterTarget, frontends: Iterable[Frontend] | None = None) -> list[JobObject]:
    """Every job of the chosen kinds in the namespaces meant, by namespace and name."""

    async def listed(frontend: Frontend) -> list[JobObject]:
        listing = await target.client.list(resource_of(frontend), target.namespace)
        kind = {"apiVersion": f"{frontend.group}/{frontend.version}", "kind": frontend.kind}
        return [parse_job_object(frontend, {**kind, **raw}) for raw in listing.items]

    answers, refusal = await _query_each_kind(registered_kinds().values() if frontends is None else frontends, listed)
    if refusal is not None and not answers:
        raise refusal
    if not answers:
        raise UserError(
            "this cluster knows no kind of training job; install them with `pliant crds | kubectl apply -f -`"
        )
    jobs = [one for answer in answers for one in answer]
    return sorted(jobs, key=lambda one: (one.key, one.frontend.kind))


async def _query_each_kind(
    frontends: Iterable[Frontend], query: Callable[[Frontend], Awaitable[T]]
) -> tuple[list[T], Forbidden | None]:
    """The answers about the kinds that the cluster has, and a refusal, though other kinds may be seen."""
    answers: list[T] = []
    refusal: Forbidden | None = None
    for answer in await asyncio.gather(*map(query, frontends), return_exceptions=True):
        if isinstance(answer, NotFound):
            continue  # the cluster does not know this kind, or has no such job
        if isinstance(answer, Forbidden):
            refusal = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers.append(answer)
    return answers, refusal


async def find_jobs(target: ClusterTarget, names: Sequence[str]) -> list[JobObject]:
    """The jobs of these names, in their order; raises `UserError` when one is not there or could be several."""
    return [await find_job(target, name) for name in names]


async def find_job(target: ClusterTarget, name: str) -> JobObject:
    """The job of this name, written as `NAME` or as `KIND/NAME`."""
    kind, slash, short = name.rpartition("/")
    ends = frontends_by_name(kind) if slash else list(registered_kinds().values())
    if not short:
        raise UserError(f"`{name}` names no job; write NAME or KIND/NAME")

    async def looked_up(frontend: Frontend) -> JobObject:
        raw = await target.client.get(resource_of(frontend), target.namespace or target.default_namespace, short)
        return parse_job_object(frontend, raw)

    there, refusal = await _query_each_kind(ends, looked_up)
    if len(there) > 1:
        choices = " or ".join(f"`{qualified_kind(one.frontend, one.frontend.kind.lower())}/{short}`" for one in there)
        raise UserError(f"several jobs are named `{short}`; write {choices}")
    if refusal is not None and not there:
        raise refusal
    return there[0] if there else await _raise_job_not_found(target, short)


async def _raise_job_not_found(target: ClusterTarget, name: str) -> JobObject:
    everywhere = []
    with suppress(Forbidden):
        everywhere = await list_jobs(ClusterTarget(target.client, None, target.default_namespace))
    if all(one.key.namespace != target.namespace for one in everywhere):
        everywhere += await list_jobs(target)  # some may look into one namespace alone
    here = [one.key.name for one in everywhere if one.key.namespace == target.namespace]
    elsewhere = [one.key.namespace for one in everywhere if one.key.name == name]
    close = get_close_matches(name, here, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"there are: {', '.join(here[:8])}" if here else ""
    hint = f"there is one in namespace {elsewhere[0]}: `-n {elsewhere[0]}`" if elsewhere else hint
    hint = hint or "there are no jobs at all"
    raise UserError(f"no job `{name}` in namespace {target.namespace}; {hint}")


def qualified_kind(frontend: Frontend, kind_name: str) -> str:
    """Its kind or plural, with its group where a kind of another group has the same: `paddlejobs.kubeflow.org`."""
    namesakes = [end for end in registered_kinds().values() if end.kind == frontend.kind]
    return kind_name if len(namesakes) == 1 else f"{kind_name}.{frontend.group}"


def frontends_by_name(kind_name: str) -> list[Frontend]:
    """The kinds that a person means by a word: kind, plural, short name, with or without its group."""
    ends = [end for end in registered_kinds().values() if kind_name.lower() in kind_names(end)]
    if not ends:
        raise UserError(
            f"no kind `{kind_name}`; there are: {', '.join(sorted({end.kind for end in registered_kinds().values()}))}"
        )
    return ends


def kind_names(frontend: Frontend) -> set[str]:
    """Everything that a kind is called, in lower case."""
    return crd_kind_names(frontend.crd())


def crd_kind_names(crd: Mapping[str, Any]) -> set[str]:
    """Everything that a definition calls its kind, in lower case."""
    spec = crd["spec"]
    own = {spec["names"]["kind"].lower(), spec["names"]["plural"], *spec["names"].get("shortNames", ())}
    return own | {f"{name}.{spec['group']}" for name in own}
