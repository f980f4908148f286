"""Pliant: a Kubernetes operator for elastic deep-learning jobs, with an embedded cluster for local use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.api.cluster import TemporaryCluster as Cluster
    from pliant.api.explanation import Explanation
    from pliant.api.functions import cluster, get, list_jobs, run, submit, submit_all
    from pliant.api.job import JobHandle as Job
    from pliant.api.options import ClusterOptions
    from pliant.api.status import GroupStatus, JobProgress, JobState, RootCause
    from pliant.api.updates import JobUpdate, PhaseUpdate, ProgressUpdate, ResizeUpdate, RestartUpdate
    from pliant.cli.input.problems import InvalidInput
    from pliant.errors import JobFailed, PliantError, UserError

__version__ = "0.1.0"

# Module and name of what `pliant` exports. It is imported when it is first used: `import pliant` takes no time, and
# every module of Pliant imports this package.
_EXPORTS = {
    "Cluster": ("pliant.api.cluster", "TemporaryCluster"),
    "ClusterOptions": ("pliant.api.options", "ClusterOptions"),
    "Explanation": ("pliant.api.explanation", "Explanation"),
    "GroupStatus": ("pliant.api.status", "GroupStatus"),
    "InvalidInput": ("pliant.cli.input.problems", "InvalidInput"),
    "Job": ("pliant.api.job", "JobHandle"),
    "JobFailed": ("pliant.errors", "JobFailed"),
    "JobProgress": ("pliant.api.status", "JobProgress"),
    "JobState": ("pliant.api.status", "JobState"),
    "JobUpdate": ("pliant.api.updates", "JobUpdate"),
    "PhaseUpdate": ("pliant.api.updates", "PhaseUpdate"),
    "PliantError": ("pliant.errors", "PliantError"),
    "ProgressUpdate": ("pliant.api.updates", "ProgressUpdate"),
    "ResizeUpdate": ("pliant.api.updates", "ResizeUpdate"),
    "RestartUpdate": ("pliant.api.updates", "RestartUpdate"),
    "RootCause": ("pliant.api.status", "RootCause"),
    "UserError": ("pliant.errors", "UserError"),
    "cluster": ("pliant.api.functions", "cluster"),
    "get": ("pliant.api.functions", "get"),
    "list_jobs": ("pliant.api.functions", "list_jobs"),
    "run": ("pliant.api.functions", "run"),
    "submit": ("pliant.api.functions", "submit"),
    "submit_all": ("pliant.api.functions", "submit_all"),
}
__all__ = [
    "Cluster",
    "ClusterOptions",
    "Explanation",
    "GroupStatus",
    "InvalidInput",
    "Job",
    "JobFailed",
    "JobProgress",
    "JobState",
    "JobUpdate",
    "PhaseUpdate",
    "PliantError",
    "ProgressUpdate",
    "ResizeUpdate",
    "RestartUpdate",
    "RootCause",
    "UserError",
    "__version__",
    "cluster",
    "get",
    "list_jobs",
    "run",
    "submit",
    "submit_all",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'pliant' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _EXPORTS[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
