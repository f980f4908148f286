"""The pods of each role: what they run, with which variables, ports and volumes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.types import PaddleJobSpec, RoleSpec
from pliant.frontends.paddle.variables import (
    fixed_variables,
    own_variables,
    ports_of,
    resources_of,
    trainer_of,
    workspace_of,
)
from pliant.frontends.reading import quoted

PSERVER, TRAINER, MASTER = "pserver", "trainer", "master"
IMAGE = "paddlepaddle/paddlecloud-job"
ETCD_IMAGE = "quay.io/coreos/etcd:v3.2.1"
WORKSPACE = "job-workspace"
"""The volume at mountPath."""
GANG = "scheduling.k8s.io/group-name"
_SIMPLE = re.compile(r"[A-Za-z0-9_./+-]+(\s[^;&|\n]*)?")
_SHELL_WORD = re.compile(
    r"[.!:]|alias|case|cd|command|eval|exec|exit|export|for|if|read|set|shift|source|trap|ulimit|umask|unset|until|wait"
    r"|while"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all roles of a job have in common."""

    job: str
    spec: PaddleJobSpec
    asks_image: bool
    """Whether the image's own script finds peers and starts programs."""


def template_of(plan: Plan, name: str, role: RoleSpec) -> dict[str, Any]:
    """The template of one role's pods."""
    spec = plan.spec
    container = _container(plan, name, role)
    containers = [container, _etcd(container["env"])] if name == MASTER else [container]
    pod: dict[str, Any] = {
        "containers": containers,
        "volumes": _volumes(spec),
        "nodeSelector": _labels({**spec.node_selector, **role.node_selector}),
        "imagePullSecrets": [*spec.image_pull_secrets, *role.image_pull_secrets],
        "tolerations": role.tolerations,
        "schedulerName": spec.scheduler_name,
        "hostNetwork": spec.host_network,
    }
    if role.grace_period_seconds is not None:
        pod["terminationGracePeriodSeconds"] = role.grace_period_seconds
    template: dict[str, Any] = {
        "spec": {key: value for key, value in pod.items() if value not in ([], {}, "", False)}
    }
    if spec.pod_group_name:
        template["metadata"] = {"annotations": {GANG: spec.pod_group_name}}
    return template


def check_volumes(spec: PaddleJobSpec) -> None:
    """Raise InvalidSpec for volumes and mounts that no pod can have."""
    for index, volume in enumerate(spec.volumes):
        if not isinstance(volume.get("name"), str):
            raise InvalidSpec(f"spec.volumes[{index}].name", f"must be text, got {quoted(volume.get('name'))}")
    for index, mount in enumerate(spec.volume_mounts):
        for field in ("name", "mountPath"):
            if not isinstance(mount.get(field), str):
                path = f"spec.VolumeMounts[{index}].{field}"
                raise InvalidSpec(path, f"must be text, got {quoted(mount.get(field))}")
    if spec.mount_path and not spec.mount_path.startswith("/"):
        raise InvalidSpec("spec.mountPath", f"must be an absolute path, got {quoted(spec.mount_path)}")


def _container(plan: Plan, name: str, role: RoleSpec) -> dict[str, Any]:
    spec = plan.spec
    found: dict[str, Any] = {
        "name": name,
        "image": spec.image or IMAGE,
        "command": _command(plan, name, role),
        "env": _variables(plan, name, role),
        "resources": resources_of(role) or (_MASTERS_SHARE if name == MASTER else {}),
        "ports": _ports(spec, name),
        "volumeMounts": _mounts(spec),
        "livenessProbe": role.liveness_probe,
        "readinessProbe": role.readiness_probe,
    }
    if role.pre_stop_cmd and role.grace_period_seconds is not None:
        found["lifecycle"] = {
            "preStop": {"exec": {"command": _words(role.pre_stop_cmd, f"spec.{name}.pre_stop_cmd")}}
        }
    return {key: value for key, value in found.items() if value not in ([], {})}


def _command(plan: Plan, name: str, role: RoleSpec) -> list[str]:
    """What a role runs: its entrypoint in the workspace, or what the image has for it."""
    is_tolerant = bool(plan.spec.fault_tolerant)
    if name == MASTER and not role.entrypoint:
        return ["paddle_k8s", "start_master"]
    if plan.asks_image and name == PSERVER:
        return ["paddle_k8s", "start_new_pserver" if is_tolerant else "start_pserver"]
    if plan.asks_image and name == TRAINER:
        return ["paddle_k8s", "start_new_trainer"] if is_tolerant else ["paddle_k8s", "start_trainer", "fluid"]
    return ["sh", "-c", _script(role.entrypoint or trainer_of(plan.spec).entrypoint, workspace_of(plan.spec))]


def _script(entrypoint: str, workspace: str) -> str:
    """The entrypoint in the workspace; a program takes the shell's place, so that it is told when to stop."""
    entry = entrypoint.strip()
    is_simple = _SIMPLE.fullmatch(entry) and not _SHELL_WORD.fullmatch(entry.split()[0])
    run = f"exec {entry}" if is_simple else entry
    if not workspace:
        return run
    imports = 'export PYTHONPATH="$TRAINER_PACKAGE${PYTHONPATH:+:$PYTHONPATH}"'
    return f'{imports}\ncd "$TRAINER_PACKAGE" || exit 1\n{run}'


def _variables(plan: Plan, name: str, role: RoleSpec) -> list[dict[str, Any]]:
    """What its author says stands; what peers and sizes tell is added when a pod is made."""
    ours: list[dict[str, Any]] = [
        {"name": key, "value": value} for key, value in fixed_variables(plan.spec, plan.job).items()
    ]
    fields = {"NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"}
    if plan.asks_image or name == MASTER:
        fields["POD_IP"] = "status.podIP"  # those scripts look for themselves in a list of addresses
    ours += [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    own = own_variables(role.envs, f"spec.{name}.envs")
    taken = {each["name"] for each in own}
    return [*(each for each in ours if each["name"] not in taken), *own]


def _ports(spec: PaddleJobSpec, name: str) -> list[dict[str, Any]]:
    if name == MASTER:
        return [{"name": "master-port", "containerPort": 8080}]
    numbers = ports_of(spec, is_trainer=name == TRAINER)
    return [{"name": f"jobport-{number}", "containerPort": number} for number in numbers]


def _volumes(spec: PaddleJobSpec) -> list[dict[str, Any]]:
    is_needed = _has_room(spec) and all(volume["name"] != WORKSPACE for volume in spec.volumes)
    return [*spec.volumes, *([{"name": WORKSPACE, "emptyDir": {}}] if is_needed else [])]


def _mounts(spec: PaddleJobSpec) -> list[dict[str, Any]]:
    return [*spec.volume_mounts, *([{"name": WORKSPACE, "mountPath": spec.mount_path}] if _has_room(spec) else [])]


def _has_room(spec: PaddleJobSpec) -> bool:
    """Whether a volume is mounted at mountPath: not over a mount of theirs, nor an empty one over a program."""
    if not spec.mount_path:
        return False
    place = _folder(spec.mount_path)
    if any(_folder(mount["mountPath"]) == place for mount in spec.volume_mounts):
        return False
    is_given = any(volume["name"] == WORKSPACE for volume in spec.volumes)
    return is_given or not _folder(workspace_of(spec)).startswith(place)


def _folder(path: str) -> str:
    """A path to compare others with."""
    return f"{path.rstrip('/')}/"


_MASTERS_SHARE = {"requests": {"cpu": "1", "memory": "500Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


def _etcd(variables: list[dict[str, Any]]) -> dict[str, Any]:
    """The side-car of the master, one member that keeps what the master must not forget."""
    client = "http://$(POD_IP):2379,http://$(POD_IP):4001"
    return {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "command": [
            "etcd",
            "--name=etcd0",
            f"--advertise-client-urls={client}",
            "--listen-client-urls=http://0.0.0.0:2379,http://0.0.0.0:4001",
            "--initial-advertise-peer-urls=http://$(POD_IP):2380",
            "--listen-peer-urls=http://0.0.0.0:2380",
            "--initial-cluster=etcd0=http://$(POD_IP):2380",
            "--initial-cluster-state=new",
        ],
        "env": variables,
        "ports": [{"name": "etcd-port", "containerPort": 2379}],
    }


def _labels(labels: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else quoted(value) for name, value in labels.items()}


def _words(command: Any, path: str) -> list[str]:
    """A command as a list; text is for a shell."""
    if isinstance(command, str):
        return ["sh", "-c", command]
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise InvalidSpec(path, f"must be text or a list of words, got {quoted(command)}")
    return command
