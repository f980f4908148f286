"""What all members of a job carry alike: made once for a decision, however many members there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.labels import environment_name

FOLDER = "/etc/pliant/env"
"""Where members find the variables that are too long to be variables."""
LONGEST = 64 * 1024
"""Bytes of one variable; Linux starts no program with one of 128 KiB."""
MOST_VARIABLES = 256 * 1024
"""Bytes of all shared variables: every container of a pod repeats them, and API servers refuse huge pods."""
MOST_FILES = 1_000_000
"""Bytes of all files: they share one ConfigMap, which holds a megabyte."""


class Variable(NamedTuple):
    """A variable as its framework names it, and as a manifest writes it."""

    name: str
    entry: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """A job's shared environment: variables, and files for what is too long for them."""

    job: Job
    framework: Framework
    variables: tuple[Variable, ...]
    files: Mapping[str, str]
    """What is too long for a variable, by the name it would have."""
    papers: Mapping[str, str]
    """The files of the framework itself."""
    holder: str
    """The name of the ConfigMap with all files; empty if there are none."""

    def variables_beside(self, own: Collection[Any]) -> list[Mapping[str, str]]:
        """The shared variables as a manifest writes them, less those whose place the named ones take."""
        return [entry for name, entry in self.variables if name not in own and entry["name"] not in own]


def outfit_of(job: Job, framework: Framework) -> Outfit:
    """The outfit of a job's members; raises InvalidSpec if there are too many of them to be listed."""
    shared = framework.shared(job)
    files, papers = _too_long(shared), framework.files(job)
    return Outfit(
        job=job,
        framework=framework,
        variables=tuple(Variable(name, _entry(name, value, name in files)) for name, value in shared.items()),
        files=files,
        papers=papers,
        holder=environment_name(job.key, _digest(job, {**files, **papers})) if files or papers else "",
    )


def _entry(name: str, value: str, is_file: bool) -> dict[str, str]:
    if is_file:
        return {"name": f"{name}_FILE", "value": f"{FOLDER}/{name}"}
    return {"name": name, "value": value}


def _too_long(shared: Mapping[str, str]) -> dict[str, str]:
    """Those that must be files: each that is too long, and the longest of what is too much together."""
    sizes = {name: len(value.encode()) for name, value in shared.items()}
    inline = sum(sizes.values())
    chosen = set()
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        if sizes[name] <= LONGEST and inline <= MOST_VARIABLES:
            break
        chosen.add(name)
        inline -= sizes[name]
    if (total := sum(sizes[name] for name in chosen)) > MOST_FILES:
        problem = f"the addresses of all members fill {total:,} bytes, and one ConfigMap can take {MOST_FILES:,}"
        raise InvalidSpec("spec.replicaSpecs", f"{problem}: use fewer members, fewer ports or shorter names")
    return {name: value for name, value in shared.items() if name in chosen}


def _digest(job: Job, files: Mapping[str, str]) -> str:
    """Tells one content from another, and the content of one job from that of its namesake before it."""
    told = blake2b(job.owner.uid.encode(), digest_size=4)
    for name, value in files.items():
        told.update(f"{name}={value}\n".encode())
    return told.hexdigest()
