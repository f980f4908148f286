"""The environment that all replicas of a job share, computed once per decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pliant.errors import InvalidSpec
from pliant.model.framework import Framework
from pliant.model.job import Job

LONG_VARIABLES_DIR = "/etc/pliant/env"
"""The mount path of variables that are too long for the environment."""
MAX_INLINE_VARIABLE_BYTES = 64 * 1024
"""The limit of one variable; execve on Linux rejects a variable of 128 KiB."""
MAX_INLINE_ENVIRONMENT_BYTES = 256 * 1024
"""The limit of all shared variables: every container of a pod repeats them, and the size of pods is limited."""
MAX_CONFIG_MAP_BYTES = 1_000_000
"""The limit of all files together: a ConfigMap holds 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEnvironment:
    job: Job
    framework: Framework
    env_entries: Mapping[str, Mapping[str, str]]
    """The `env` entries of the manifest, by the name of the variable."""
    variable_files: Mapping[str, str]
    """The values of variables that are too long, by variable name; mounted as files."""
    framework_files: Mapping[str, str]
    config_map_name: str
    """The ConfigMap with all files; empty if there are none."""

    def env_entries_except(self, overridden_names: Collection[Any]) -> list[Mapping[str, str]]:
        """Return the `env` entries of the variables that are not overridden."""
        entries = [entry for name, entry in self.env_entries.items() if name not in overridden_names]
        return [entry for entry in entries if entry["name"] not in overridden_names]


def build_shared_environment(job: Job, framework: Framework) -> SharedEnvironment:
    """Compute the shared environment; raise InvalidSpec if the addresses of all replicas exceed a ConfigMap."""
    shared = framework.shared_environment(job)
    variable_files, framework_files = _select_file_variables(shared), framework.files(job)
    files = {**variable_files, **framework_files}
    return SharedEnvironment(
        job=job,
        framework=framework,
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


def _select_file_variables(variables: Mapping[str, str]) -> dict[str, str]:
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
        raise InvalidSpec("spec.replicaSpecs", f"{problem}: use fewer replicas, fewer ports or shorter names")
    return {name: value for name, value in variables.items() if name in chosen}


def _content_hash(job: Job, files: Mapping[str, str]) -> str:
    """Hash the files and the UID of the job: a later job of the same name gets another ConfigMap."""
    digest = blake2b(job.owner.uid.encode(), digest_size=4)
    for name, value in files.items():
        digest.update(f"{name}={value}\n".encode())
    return digest.hexdigest()
