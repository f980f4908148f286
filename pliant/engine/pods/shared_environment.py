"""The environment that all replicas of a job share, computed once per decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from pliant.errors import InvalidSpec
from pliant.model.framework import Framework
from pliant.model.job import Job

ENVIRONMENT_VOLUME, FRAMEWORK_FILES_VOLUME = "pliant-env", "pliant-files"
READABLE_MODE, EXECUTABLE_MODE = 0o444, 0o555
LONG_VARIABLES_DIR = "/etc/pliant/env"
"""The mount path of variables that are too long for the environment."""
MAX_INLINE_VARIABLE_BYTES = 64 * 1024
"""The limit of one variable; execve on Linux rejects a variable of 128 KiB."""
MAX_INLINE_ENVIRONMENT_BYTES = 256 * 1024
"""The limit of all shared variables: every container of a pod repeats them, and the size of pods is limited."""
MAX_CONFIG_MAP_BYTES = 1_000_000
"""The limit of all files together: a ConfigMap holds 1 MiB."""
NO_NODES: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, kw_only=True)
class SharedEnvironment:
    job: Job
    framework: Framework
    avoided_nodes: tuple[str, ...]
    excluded_nodes: Mapping[str, tuple[str, ...]]
    """Nodes with a device fault, by group name."""
    env_entries: Mapping[str, Mapping[str, str]]
    """The `env` entries of the manifest, by the name of the variable."""
    variable_files: Mapping[str, str]
    """The values of variables that are too long, by variable name; mounted as files."""
    framework_files: Mapping[str, str]
    config_map_name: str
    """The ConfigMap with all files; empty if there are none."""

    @cached_property
    def volumes(self) -> tuple[Mapping[str, Any], ...]:
        """The volumes with the files, for all pods."""
        volumes: list[Mapping[str, Any]] = []
        if self.variable_files:
            config_map: dict[str, Any] = {"name": self.config_map_name, "defaultMode": READABLE_MODE}
            volumes.append({"name": ENVIRONMENT_VOLUME, "configMap": config_map})
        if self.framework_files:
            items = [{"key": name, "path": name} for name in self.framework_files]
            config_map = {"name": self.config_map_name, "items": items, "defaultMode": EXECUTABLE_MODE}
            volumes.append({"name": FRAMEWORK_FILES_VOLUME, "configMap": config_map})
        return tuple(volumes)

    @cached_property
    def mounts(self) -> tuple[Mapping[str, Any], ...]:
        """The mounts of the volumes, for all containers."""
        paths = {ENVIRONMENT_VOLUME: LONG_VARIABLES_DIR, FRAMEWORK_FILES_VOLUME: self.framework.files_dir}
        names = [volume["name"] for volume in self.volumes]
        return tuple({"name": name, "mountPath": paths[name], "readOnly": True} for name in names if paths[name])

    def env_entries_except(self, overridden_names: Collection[Any]) -> list[Mapping[str, str]]:
        """Return the `env` entries of the variables that are not overridden."""
        entries = [entry for name, entry in self.env_entries.items() if name not in overridden_names]
        return [entry for entry in entries if entry["name"] not in overridden_names]


def build_shared_environment(
    job: Job,
    framework: Framework,
    avoided_nodes: tuple[str, ...] = (),
    excluded_nodes: Mapping[str, tuple[str, ...]] = NO_NODES,
) -> SharedEnvironment:
    """Compute the shared environment; raise InvalidSpec if the addresses of all replicas exceed a ConfigMap."""
    shared = framework.shared_environment(job)
    variable_files, framework_files = _select_file_variables(job, shared), framework.files(job)
    files = {**variable_files, **framework_files}
    return SharedEnvironment(
        job=job,
        framework=framework,
        avoided_nodes=avoided_nodes,
        excluded_nodes=excluded_nodes,
        env_entries={
            name: {"name": f"{name}_FILE", "value": f"{LONG_VARIABLES_DIR}/{name}"}
            if name in variable_files
            else {"name": name, "value": value}
            for name, value in shared.items()
        },
        variable_files=variable_files,
        framework_files=framework_files,
        config_map_name=f"{job.key.name}-env-{_content_hash(job, files)}" if files else "",
    )


def _select_file_variables(job: Job, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to mount as files: those that are too long, and the longest until the rest fits."""
    sizes = {name: len(value.encode()) for name, value in variables.items()}
    inline = sum(sizes.values())
    chosen = set()
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        if sizes[name] <= MAX_INLINE_VARIABLE_BYTES and inline <= MAX_INLINE_ENVIRONMENT_BYTES:
            break
        chosen.add(name)
        inline -= sizes[name]
    if (total := sum(sizes[name] for name in chosen)) > MAX_CONFIG_MAP_BYTES:
        problem = f"the addresses of all replicas take {total:,} bytes, a ConfigMap holds {MAX_CONFIG_MAP_BYTES:,}"
        path = job.groups[0].path.rpartition(".")[0] or "spec"
        raise InvalidSpec(path, f"{problem}: use fewer replicas, fewer ports or shorter names")
    return {name: value for name, value in variables.items() if name in chosen}


def _content_hash(job: Job, files: Mapping[str, str]) -> str:
    """Hash the files and the UID of the job: a later job of the same name gets another ConfigMap."""
    digest = blake2b(job.owner.uid.encode(), digest_size=4)
    for name, value in files.items():
        digest.update(f"{name}={value}\n".encode())
    return digest.hexdigest()
