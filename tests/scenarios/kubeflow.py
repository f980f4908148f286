"""Scenes with jobs of kubeflow.org, whose phase is their last condition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pliant.frontends import FRONTENDS
from pliant.frontends.kubeflow.job import KubeflowJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from tests.scenarios.jobs import FOREVER, Manifest, group
from tests.scenarios.laws import Object
from tests.scenarios.nodes import PaperNodes, paper_nodes
from tests.scenarios.scene import Scene, fresh_name, played

KINDS = {end.kind: end for end in FRONTENDS.values() if isinstance(end, KubeflowJobFrontend)}


class KubeflowScene(Scene):
    """A namespace with jobs of one kind of kubeflow.org, on nodes on paper."""

    def __init__(self, client: KubeClient, namespace: str, kind: str = "PyTorchJob") -> None:
        super().__init__(client, namespace)
        frontend = KINDS[kind]
        self.dialect = frontend.kubeflow_kind
        self.jobs = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)

    def phase_in(self, status: Object) -> str:
        """The type of the last condition."""
        conditions = status.get("conditions") or [{}]
        return str(conditions[-1].get("type", ""))

    def manifest(self, name: str, groups: Mapping[str, Manifest], **fields: Any) -> Manifest:
        """A job of these groups; other fields of its spec in the words of the YAML."""
        return {
            "apiVersion": self.jobs.api_version,
            "kind": self.jobs.kind,
            "metadata": {"name": name},
            "spec": {**fields, self.dialect.replica_specs_field: dict(groups)},
        }


@asynccontextmanager
async def on_paper(client: KubeClient, kind: str = "PyTorchJob") -> AsyncIterator[tuple[KubeflowScene, PaperNodes]]:
    """A fresh scene for jobs of a kind, and nodes for their pods."""
    async with played(KubeflowScene(client, fresh_name(), kind)) as scene, paper_nodes(scene) as nodes:
        yield scene, nodes


def members(nodes: PaperNodes, size: int = 1, **fields: Any) -> Manifest:
    """A group whose members come to these nodes."""
    return nodes.place(group(FOREVER, size, **fields))


def uids(scene: Scene, job: str) -> dict[str, str]:
    """Which pods a job has, by name."""
    return {name: pod["metadata"]["uid"] for name, pod in scene.pods.items() if name.startswith(f"{job}-")}


def running(scene: Scene, job: str) -> set[str]:
    """The names of a job's pods that run."""
    return {name for name in uids(scene, job) if scene.pods[name]["status"].get("phase") == "Running"}
