"""What all members of a job carry alike: made once for a decision, however many members there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.labels import environment_config_map_name

ENVIRONMENT_DIR = "/etc/pliant/env"
"""Where members find the variables that are too long to be variables."""
MAX_VARIABLE_BYTES = 64 * 1024
"""Bytes of one variable; Linux starts no program with one of 128 KiB."""
MAX_INLINE_BYTES = 256 * 1024
"""Bytes of all shared variables: every container of a pod repeats them, and API servers refuse huge pods."""
MAX_FILES_BYTES = 1_000_000
"""Bytes of all files: they share one ConfigMap, which holds a megabyte."""


class EnvironmentVariable(NamedTuple):
    """A variable as its framework names it, and as a manifest writes it."""

    name: str
    manifest_entry: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEnvironment:
    """A job's shared environment: variables, and files for what is too long for them."""

    job: Job
    framework: Framework
    variables: tuple[EnvironmentVariable, ...]
    variable_files: Mapping[str, str]
    """What is too long for a variable, by the name it would have."""
    framework_files: Mapping[str, str]
    """The files of the framework itself."""
    config_map_name: str
    """The name of the ConfigMap with all files; empty if there are none."""

    def variables_except(self, overridden_names: Collection[Any]) -> list[Mapping[str, str]]:
        """The shared variables as a manifest writes them, less those whose place the named ones take."""
        return [
            entry
            for name, entry in self.variables
            if name not in overridden_names and entry["name"] not in overridden_names
        ]


def build_shared_environment(job: Job, framework: Framework) -> SharedEnvironment:
    """The outfit of a job's members; raises InvalidSpec if there are too many of them to be listed."""
    shared = framework.shared_environment(job)
    files, papers = _select_file_variables(shared), framework.files(job)
    return SharedEnvironment(
        job=job,
        framework=framework,
        variables=tuple(
            EnvironmentVariable(name, _variable_entry(name, value, name in files)) for name, value in shared.items()
        ),
        variable_files=files,
        framework_files=papers,
        config_map_name=environment_config_map_name(job.key, _content_hash(job, {**files, **papers}))
        if files or papers
        else "",
    )


def _variable_entry(name: str, value: str, is_file: bool) -> dict[str, str]:
    if is_file:
        return {"name": f"{name}_FILE", "value": f"{ENVIRONMENT_DIR}/{name}"}
    return {"name": name, "value": value}


def _select_file_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that must be files: each that is too long, and the longest of what is too much together."""
    sizes = {name: len(value.encode()) for name, value in variables.items()}
    inline = sum(sizes.values())
    chosen = set()
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        if sizes[name] <= MAX_VARIABLE_BYTES and inline <= MAX_INLINE_BYTES:
            break
        chosen.add(name)
        inline -= sizes[name]
    if (total := sum(sizes[name] for name in chosen)) > MAX_FILES_BYTES:
        problem = f"the addresses of all members fill {total:,} bytes, and one ConfigMap can take {MAX_FILES_BYTES:,}"
        raise InvalidSpec("spec.replicaSpecs", f"{problem}: use fewer members, fewer ports or shorter names")
    return {name: value for name, value in variables.items() if name in chosen}


def _content_hash(job: Job, files: Mapping[str, str]) -> str:
    """Tells one content from another, and the content of one job from that of its namesake before it."""
    told = blake2b(job.owner.uid.encode(), digest_size=4)
    for name, value in files.items():
        told.update(f"{name}={value}\n".encode())
    return told.hexdigest()
