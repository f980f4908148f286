"""Training jobs from a few words: shell scripts instead of trainers, defaults everywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

API_VERSION = "elasticdeeplearning.ai/v1"
KIND = "AITrainingJob"
FOREVER = "exec sleep 600"
"""The script of a member that never ends by itself."""
IMAGE = "python:3-alpine"
"""Not run by an embedded cluster; a real one finds a shell and a Python in it."""

Manifest = dict[str, Any]


def group(script: str, replicas: int = 1, *, ports: Mapping[str, int] | None = None, **fields: Any) -> Manifest:
    """A group whose members run one script; other fields in the words of the YAML."""
    # Kubernetes reads `$$` in a command as an escaped `$`.
    command = ["sh", "-c", script.replace("$$", "$$$$")]
    container: Manifest = {"name": "aitj-main", "image": IMAGE, "command": command}
    if ports:
        container["ports"] = [{"name": name, "containerPort": number} for name, number in ports.items()]
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {"replicas": replicas, **fields, "template": template}


def job(name: str, groups: Mapping[str, Manifest], **fields: Any) -> Manifest:
    """A job of these groups; other fields of its spec in the words of the YAML."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {**fields, "replicaSpecs": dict(groups)},
    }


def per_rank(*scripts: str) -> str:
    """A script that is another one for each index; the last one is for all that follow."""
    return _chosen("$TRAININGJOB_REPLICA_INDEX", scripts)


def per_attempt(*scripts: str) -> str:
    """A script that is another one after each restart; the last one is for all that follow."""
    return _chosen("$TRAININGJOB_REPLICA_RESTARTCOUNT", scripts)


def _chosen(variable: str, scripts: tuple[str, ...]) -> str:
    *first, last = scripts
    cases = "".join(f"{number}) {script};; " for number, script in enumerate(first))
    return f"case {variable} in {cases}*) {last};; esac"
