"""What others add to Pliant: the classes they write, and the tables in which all kinds and frameworks meet."""

from __future__ import annotations

from pliant.frontends.base import Frontend
from pliant.frontends.dljob import DLJob
from pliant.frontends.dljob_replica import Replica
from pliant.frontends.dljob_templates import ContainerProperties
from pliant.frontends.dljob_types import Restarts
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Naming, Port, RestartScope

__all__ = [
    "ContainerProperties",
    "DLJob",
    "Framework",
    "Frontend",
    "Job",
    "Naming",
    "Port",
    "Rank",
    "Replica",
    "RestartScope",
    "Restarts",
    "Role",
]
