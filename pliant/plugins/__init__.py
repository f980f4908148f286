"""The plugin API: base classes for kinds and frameworks of other packages, and the registry of all of them."""

from __future__ import annotations

from pliant.frontends.dl.job import DLJob
from pliant.frontends.dl.pod_templates import ContainerProperties
from pliant.frontends.dl.replica import DLReplica
from pliant.frontends.fields import ReplicaRestartPolicy
from pliant.frontends.frontend import Frontend
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Naming, Port, RestartScope

__all__ = [
    "ContainerProperties",
    "DLJob",
    "DLReplica",
    "Framework",
    "Frontend",
    "Job",
    "Naming",
    "Port",
    "Rank",
    "ReplicaRestartPolicy",
    "RestartScope",
    "Role",
]
