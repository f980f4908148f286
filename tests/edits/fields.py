"""One edit of every field of every kind outside pod templates, and of the templates and groups themselves."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pliant.frontends import FRONTENDS
from pliant.frontends.kubeflow.job import KubeflowJobFrontend
from tests.edits.jobs import KINDS, KindKey, Raw, group, job_of

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Edit:
    """Another value of one field of a job; None removes the field."""

    kind: KindKey
    path: Path
    value: Any
    name: str
    """The field as documentation writes it, with `*` for a group."""

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str | int) else ""
        return f"{self.kind[1]}.{self.kind[0]}: {self.name} {value}".strip()

    def applied(self, raw: Raw) -> Raw:
        """The job after the edit."""
        edited = copy.deepcopy(raw)
        inner: Any = edited
        for step in self.path[:-1]:
            if isinstance(inner, dict) and not isinstance(inner.get(step), dict | list):
                inner[step] = {}
            inner = inner[step]
        last: Any = self.path[-1]
        if self.value is not None:
            inner[last] = self.value
        elif isinstance(inner, list) or last in inner:
            del inner[last]
        return edited


REMOVED = object()
VALUES: dict[str, Any] = {
    "completePolicy": "Any",
    "distributionStrategy": "ParameterServerStrategy",
    "replicaSpecs.*.priority": "high",
    "replicaSpecs.*.criticalNodes": "all",
    "replicaSpecs.*.maxReplicas": 3,
    "replicaSpecs.*.completePolicy": "Rank0",
    "resourceLimits": {"cpu": "8"},
    "restartingExitCode": "137",
    "elastic.group": "ps",
    "elastic": REMOVED,
    "frameworkType": "pytorch",
    "mainContainer": "trainer",
    "mpiImplementation": "Intel",
    "elasticPolicy.rdzvBackend": "etcd",
    "elasticPolicy.maxReplicas": 3,
    "elasticPolicy.rdzvConf": [{"key": "timeout", "value": "60"}],
    "elasticPolicy.metrics": [{"type": "Resource"}],
    "managedBy": "example.com/other",
    "runPolicy.managedBy": "example.com/other",
    "worker.limits": 3,
    "sampleSetRef": {"name": "data"},
    "volumes": [{"name": "data", "emptyDir": {}}],
    "VolumeMounts": [{"name": "data", "mountPath": "/data"}],
    "*.imagePullSecrets": [{"name": "key"}],
    "imagePullSecrets": [{"name": "key"}],
    "*.tolerations": [{"key": "gpu", "operator": "Exists"}],
    "*.liveness_probe": {"exec": {"command": ["true"]}},
    "*.readiness_probe": {"exec": {"command": ["true"]}},
    "*.envs": {"A": "b"},
    "*.pre_stop_cmd": "true",
    "*.resources.limits": {"cpu": "2"},
    "*.resources.requests": {"cpu": "1"},
    "*.node_selector": {"disk": "ssd"},
    "*.restart_limit": 7,
    "NodeSelector": {"disk": "ssd"},
    "mountPath": "/data",
    "annotations": {"walltime": 3600},
    "frame_work": {"type": "nccl2"},
    "port": 7000,
    "trainer_port": 7200,
    "fault_tolerant": False,
    "trainer.instances": 3,
    "trainer.max-instance": 3,
    "envs": {"A": "b"},
}
"""Values where the schema does not suggest one."""
LONG = 3600
"""Seconds that no test takes, for limits of time."""
OTHER_TEMPLATE: Raw = {"spec": {"containers": [{"name": "trainer", "image": "other", "command": ["true"]}]}}


def edits_of(kind: KindKey) -> Iterator[Edit]:
    """One edit of each field of a kind."""
    raw = job_of(kind)
    schema = FRONTENDS[kind].crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name, nested in schema["properties"].items():
        if name not in ("apiVersion", "kind", "metadata", "status"):
            yield from _edits(kind, nested, raw.get(name), (name,), "" if name == "spec" else name)


def all_edits() -> list[Edit]:
    return [edit for kind in KINDS for edit in edits_of(kind)]


def _edits(kind: KindKey, schema: Raw, present: Any, path: Path, name: str) -> Iterator[Edit]:
    if name.endswith("template"):
        yield Edit(kind, path, OTHER_TEMPLATE, name)
    elif "additionalProperties" in schema and schema["additionalProperties"].get("properties"):
        yield from _group_edits(kind, schema["additionalProperties"], present or {}, path, name)
    elif schema.get("type") == "array" and schema["items"].get("properties", {}).get("template"):
        for field, nested in schema["items"]["properties"].items():
            if field != "replicaType":
                yield from _edits(kind, nested, present[-1].get(field), (*path, len(present) - 1, field), f"*.{field}")
        yield Edit(kind, path, present[-1:], "spec (adding or removing a group)")
    elif schema.get("properties"):
        yield from _object_edits(kind, schema, present, path, name)
    else:
        for value in _other_values(schema, present, name):
            yield Edit(kind, path, value, name)


def _group_edits(kind: KindKey, schema: Raw, groups: Raw, path: Path, name: str) -> Iterator[Edit]:
    """Edits of the workers, and groups that come or go."""
    workers = next(each for each in groups if each.lower() == "worker")
    yield from _object_edits(kind, schema, groups[workers], (*path, workers), f"{name}.*")
    frontend = FRONTENDS[kind]
    roles = frontend.kubeflow_kind.roles if isinstance(frontend, KubeflowJobFrontend) else ("evaluator",)
    for role in [each for each in roles if each not in groups][:1]:
        yield Edit(kind, (*path, role), group(1), f"{name} (adding or removing a group)")
    if len(groups) > 1:
        yield Edit(kind, (*path, next(reversed(groups))), None, f"{name} (adding or removing a group)")


def _object_edits(kind: KindKey, schema: Raw, present: Any, path: Path, name: str) -> Iterator[Edit]:
    present = present if isinstance(present, dict) else {}
    is_role = "template" in schema["properties"] or "entrypoint" in schema["properties"]
    if is_role and len(path) > 1 and "*" not in name and path[-1] not in ("worker", "trainer"):
        # The workers stand for other roles, but for their sizes.
        yield Edit(kind, path, None if present else group(1), f"{name} (adding or removing a group)")
        for size in ("replicas", "min-instance"):
            if size in present:
                yield Edit(kind, (*path, size), present[size] + 1, f"{name}.{size}")
        return
    for field, nested in schema["properties"].items():
        yield from _edits(kind, nested, present.get(field), (*path, field), f"{name}.{field}" if name else field)


def _other_values(schema: Raw, present: Any, name: str) -> Iterator[Any]:
    """Valid values other than the present one: each choice, or one value."""
    generic = "*." + name.partition(".")[2]
    if (given := VALUES.get(name, VALUES.get(generic))) is not None:
        yield None if given is REMOVED else given
        return
    match schema:
        case {"enum": choices}:
            yield from (each for each in choices if each not in (present, ""))
        case {"type": "boolean"}:
            yield not present
        case {"type": "integer", "format": "int64"}:
            yield LONG
        case {"type": "integer"} | {"x-kubernetes-int-or-string": True}:
            yield present + 1 if isinstance(present, int) else 2
        case {"type": "string"}:
            yield "other"
        case {"type": "object"}:
            yield {"other": "1"}
        case _:
            yield True
