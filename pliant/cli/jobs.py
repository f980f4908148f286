"""Finds the jobs that people name, whatever their kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from pliant.cli.target import Target
from pliant.controllers.job import resource_of
from pliant.errors import Forbidden, InvalidSpec, NotFound, UserError
from pliant.frontends.base import Frontend
from pliant.frontends.memory import remembered, status_in
from pliant.kube.resources import Resource
from pliant.model.job import Job, JobKey
from pliant.model.labels import MANAGER
from pliant.model.state import EngineState, Phase
from pliant.plugins.known import kinds

T = TypeVar("T")

INVALID = "Invalid"
"""What stands for the phase of a job that cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job as the cluster has it."""

    frontend: Frontend
    raw: Mapping[str, Any]
    job: Job | None
    problem: str = ""
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
    def title(self) -> str:
        """What kubectl calls it: `aitrainingjob.elasticdeeplearning.ai/bert`."""
        return f"{self.frontend.kind.lower()}.{self.frontend.group}/{self.key.name}"

    @property
    def state(self) -> EngineState | None:
        """What the operator remembers of it; None if it has never looked at it."""
        if self.job is not None:
            return self.job.state
        with suppress(InvalidSpec):  # its members may be at work all the same
            return remembered(status_in(self.raw))
        return None

    @property
    def phase(self) -> str:
        """Where it stands, in one word."""
        if self.problem:
            return INVALID
        told = self.state.phase if self.state else status_in(self.raw).get("phase")
        return str(told or Phase.PENDING)

    @property
    def message(self) -> str:
        """Where it stands, in a sentence."""
        if self.problem:
            return self.problem
        if self.job is not None and self.job.managed_by not in ("", MANAGER):
            return f"left to {self.job.managed_by} ({self.frontend.policy_field}.managedBy)"
        return self.state.message if self.state else "no operator has looked at it yet"

    @property
    def created_at(self) -> datetime | None:
        """When it was made."""
        text = str(self.raw["metadata"].get("creationTimestamp") or "")
        return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def found(frontend: Frontend, raw: Mapping[str, Any]) -> Found:
    """A raw object as a job; one that cannot be understood is found all the same."""
    try:
        return Found(frontend=frontend, raw=raw, job=frontend.parse(raw))
    except InvalidSpec as problem:
        return Found(frontend=frontend, raw=raw, job=None, problem=str(problem))


async def all_jobs(target: Target, chosen: Iterable[Frontend] | None = None) -> list[Found]:
    """Every job of the chosen kinds in the namespaces meant, by namespace and name."""

    async def listed(frontend: Frontend) -> list[Found]:
        listing = await target.client.list(resource_of(frontend), target.namespace)
        kind = {"apiVersion": f"{frontend.group}/{frontend.version}", "kind": frontend.kind}
        return [found(frontend, {**kind, **raw}) for raw in listing.items]

    answers, refusal = await _asked_of_each(kinds().values() if chosen is None else chosen, listed)
    if refusal is not None and not answers:
        raise refusal
    if not answers:
        raise UserError(
            "this cluster knows no kind of training job; install them with `pliant crds | kubectl apply -f -`"
        )
    jobs = [one for answer in answers for one in answer]
    return sorted(jobs, key=lambda one: (one.key, one.frontend.kind))


async def _asked_of_each(
    frontends: Iterable[Frontend], question: Callable[[Frontend], Awaitable[T]]
) -> tuple[list[T], Forbidden | None]:
    """The answers about the kinds that the cluster has, and a refusal, though other kinds may be seen."""
    answers: list[T] = []
    refusal: Forbidden | None = None
    for answer in await asyncio.gather(*map(question, frontends), return_exceptions=True):
        if isinstance(answer, NotFound):
            continue  # the cluster does not know this kind, or has no such job
        if isinstance(answer, Forbidden):
            refusal = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            answers.append(answer)
    return answers, refusal


async def named_jobs(target: Target, names: Sequence[str]) -> list[Found]:
    """The jobs of these names, in their order; raises `UserError` when one is not there or could be several."""
    return [await named_job(target, name) for name in names]


async def named_job(target: Target, name: str) -> Found:
    """The job of this name, written as `NAME` or as `KIND/NAME`."""
    kind, slash, short = name.rpartition("/")
    ends = kinds_named(kind) if slash else list(kinds().values())
    if not short:
        raise UserError(f"`{name}` names no job; write NAME or KIND/NAME")

    async def looked_up(frontend: Frontend) -> Found:
        raw = await target.client.get(resource_of(frontend), target.namespace or target.home, short)
        return found(frontend, raw)

    there, refusal = await _asked_of_each(ends, looked_up)
    if len(there) > 1:
        choices = " or ".join(f"`{known_as(one.frontend, one.frontend.kind.lower())}/{short}`" for one in there)
        raise UserError(f"several jobs are named `{short}`; write {choices}")
    if refusal is not None and not there:
        raise refusal
    return there[0] if there else await _missing(target, short)


async def _missing(target: Target, name: str) -> Found:
    everywhere = []
    with suppress(Forbidden):
        everywhere = await all_jobs(Target(target.client, None, target.home))
    if all(one.key.namespace != target.namespace for one in everywhere):
        everywhere += await all_jobs(target)  # some may look into one namespace alone
    here = [one.key.name for one in everywhere if one.key.namespace == target.namespace]
    elsewhere = [one.key.namespace for one in everywhere if one.key.name == name]
    close = get_close_matches(name, here, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"there are: {', '.join(here[:8])}" if here else ""
    hint = f"there is one in namespace {elsewhere[0]}: `-n {elsewhere[0]}`" if elsewhere else hint
    hint = hint or "there are no jobs at all"
    raise UserError(f"no job `{name}` in namespace {target.namespace}; {hint}")


def known_as(frontend: Frontend, word: str) -> str:
    """Its kind or plural, with its group where a kind of another group has the same: `paddlejobs.kubeflow.org`."""
    namesakes = [end for end in kinds().values() if end.kind == frontend.kind]
    return word if len(namesakes) == 1 else f"{word}.{frontend.group}"


def kinds_named(word: str) -> list[Frontend]:
    """The kinds that a person means by a word: kind, plural, short name, with or without its group."""
    ends = [end for end in kinds().values() if word.lower() in names_of(end)]
    if not ends:
        raise UserError(
            f"no kind `{word}`; there are: {', '.join(sorted({end.kind for end in kinds().values()}))}"
        )
    return ends


def names_of(frontend: Frontend) -> set[str]:
    """Everything that a kind is called, in lower case."""
    return names_in(frontend.crd())


def names_in(crd: Mapping[str, Any]) -> set[str]:
    """Everything that a definition calls its kind, in lower case."""
    spec = crd["spec"]
    own = {spec["names"]["kind"].lower(), spec["names"]["plural"], *spec["names"].get("shortNames", ())}
    return own | {f"{name}.{spec['group']}" for name in own}
