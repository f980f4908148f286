"""One training framework per file: which environment, ports and files a rank needs."""

from __future__ import annotations

from pliant.frameworks.generic import Generic
from pliant.frameworks.joined import Joined
from pliant.frameworks.pytorch import PyTorch
from pliant.model.framework import Framework
from pliant.model.job import Job

_KNOWN: tuple[Framework, ...] = (
    Generic(),
    PyTorch(),
)

FRAMEWORKS: dict[str, Framework] = {each.name: each for each in _KNOWN}
"""Every framework with a contract of its own, by the word users write."""


def contract_of(job: Job) -> Framework:
    """What the members of a job are given; frameworks that we do not know add nothing."""
    known = [FRAMEWORKS[name] for name in job.frameworks if name in FRAMEWORKS]
    return known[0] if len(known) == 1 else Joined(known)


__all__ = ["FRAMEWORKS", "contract_of"]
