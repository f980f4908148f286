"""ElasticJobs whose master is DLRover's own, with members that train for real."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.dlrover_masters.versions import RELEASES
from tests.scenarios.jobs import Manifest

API_VERSION = "elastic.iml.github.io/v1alpha1"
PROGRAMS = Path(__file__).with_name("programs")
ENOUGH = "enough"
"""The file whose presence ends a training."""
PORT = "50001"
_CLAIM = "state"
_MOUNTS = [
    # The masters and agents of DLRover write to fixed places there; containers have one each, processes do not.
    {"name": "tmp", "mountPath": "/tmp"},
    {"name": "program", "mountPath": "/mnt"},
    {"name": "state", "mountPath": "/state"},
]
_VOLUMES = [
    {"name": "tmp", "emptyDir": {}},
    {"name": "program", "configMap": {"name": "program"}},
    {"name": "state", "persistentVolumeClaim": {"claimName": _CLAIM}},
]


@dataclass(frozen=True, slots=True)
class Master:
    """Which release, and who makes the pods: the master itself (`pyk8s`) or the operator, by its plans (`k8s`)."""

    version: str
    platform: str

    @property
    def folder(self) -> Path:
        """Where its Python environment is."""
        return RELEASES[self.version].folder

    def group(self, namespace: str, name: str, restarts: int) -> Manifest:
        """The group of the master."""
        words = ["--platform", self.platform, "--namespace", namespace, "--job_name", name, "--port", PORT]
        command = [f"{self.folder}/bin/python3", "-m", "dlrover.python.master.main", *words]
        return {"restartCount": restarts, "template": _template(command)}

    def __str__(self) -> str:
        return f"{self.version}-{self.platform}"


def allreduce(master: Master, namespace: str, name: str, workers: int = 2) -> Manifest:
    """A job of workers under `dlrover-run`, one to four of them."""
    command = [
        f"{master.folder}/bin/dlrover-run",
        "--nnodes=1:4",
        "--nproc_per_node=1",
        "--max_restarts=3",
        "--monitor_interval=1",
        "--rdzv_conf=join_timeout=120,lastcall_timeout=3",
        "/mnt/allreduce.py",
    ]
    # Without the first two, torch 1.13 fails under Python 3.11.
    env = {"PET_REDIRECTS": "1:1", "PET_TEE": "1:1", "OMP_NUM_THREADS": "1"}
    groups = {"worker": _members(workers, _template(command, env, memory="512Mi"))}
    return _job(master, namespace, name, "AllreduceStrategy", groups)


def around_servers(master: Master, namespace: str, name: str, workers: int = 2, servers: int = 1) -> Manifest:
    """A job of servers and workers; the master makes a chief of one worker."""
    command = [f"{master.folder}/bin/python3", "-u", "/mnt/servers.py"]
    sizes = {"ps": servers, "worker": workers}
    groups = {name: _members(size, _template(command, memory="128Mi")) for name, size in sizes.items()}
    return _job(master, namespace, name, "ParameterServerStrategy", groups)


def manual_plan(job: str, name: str, workers: int) -> Manifest:
    """What people write to have another number of workers."""
    labels = {"scale-type": "manual", "elasticjob.dlrover/name": job}
    worker = {"replicas": workers, "resource": {"cpu": "100m", "memory": "512Mi"}}
    return {
        "apiVersion": API_VERSION,
        "kind": "ScalePlan",
        "metadata": {"name": name, "labels": labels},
        "spec": {"ownerJob": job, "replicaResourceSpecs": {"worker": worker}},
    }


def programs() -> Manifest:
    """All programs, as members find them under /mnt."""
    data = {path.name: path.read_text() for path in sorted(PROGRAMS.glob("*.py"))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}, "data": data}


def claim() -> Manifest:
    """Where trainings keep what they have learned."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": _CLAIM}, "spec": spec}


def _job(master: Master, namespace: str, name: str, strategy: str, groups: Manifest) -> Manifest:
    groups = {**groups, "dlrover-master": master.group(namespace, name, restarts=3)}
    spec = {"distributionStrategy": strategy, "optimizeMode": "single-job", "replicaSpecs": groups}
    return {"apiVersion": API_VERSION, "kind": "ElasticJob", "metadata": {"name": name}, "spec": spec}


def _members(size: int, template: Manifest) -> Manifest:
    return {"replicas": size, "autoScale": False, "template": template}


def _template(command: list[str], env: dict[str, str] | None = None, memory: str = "") -> Manifest:
    amounts = {"cpu": "100m", "memory": memory}
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "command": command,
        "workingDir": "/tmp",
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "volumeMounts": _MOUNTS,
    }
    if memory:
        container["resources"] = {"requests": amounts, "limits": amounts}
    return {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": _VOLUMES}}
