"""What a kind says about plans: objects beside its jobs that ask for other members of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from pliant.frontends.base import Frontend
from pliant.model.plans import Plan, PlanStatus

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanKind:
    """A kind of plan: where it is served, how it is read, and how its status is told."""

    group: str
    version: str
    kind: str
    plural: str
    crd: Callable[[], dict[str, Any]]
    """The CustomResourceDefinition that teaches a cluster this kind."""
    parse: Callable[[Raw], Plan]
    """The plan that a raw object holds; one that cannot be read tells why, and never raises."""
    status: Callable[[PlanStatus, Raw], dict[str, Any]]
    """The whole new raw status, from what is to be told and the one before."""
    owner: Callable[[Raw], str]
    """The name of the job that a raw object is for; empty if it does not say."""
    foreign_pods: str
    """The label selector of pods that masters make by themselves."""
    owner_field: str = "spec.ownerJob"
    """Where that is written."""
    farewell: Mapping[str, str] = field(default_factory=dict)
    """Labels by which a pod tells its master that nobody is to take its place."""
    bait: str = ""
    """The label by which masters other than ours find plans of people, and act on them again and again."""


@runtime_checkable
class Mastered(Protocol):
    """A front end whose jobs have masters of their own, which write plans."""

    @property
    def plans(self) -> PlanKind:
        """What they write."""


def plans_of(frontend: Frontend) -> PlanKind | None:
    """The plans that jobs of a kind may have; None if they have none."""
    return frontend.plans if isinstance(frontend, Mastered) else None
