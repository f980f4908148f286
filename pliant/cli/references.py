"""Finds the ConfigMaps and Secrets that pods need and no file holds: they would wait for them for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from pliant.cli.manifests import Manifest
from pliant.cli.problems import Problem

REFERENCES = {
    "configMap": ("ConfigMap", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "secretRef": ("Secret", "name"),
    "secretKeyRef": ("Secret", "name"),
}
"""Fields of a pod that name an object: its kind, and the field below that holds the name."""
MADE_BY_THE_CLUSTER = frozenset({("ConfigMap", "kube-root-ca.crt")})


def check_references(running: Iterable[Manifest], manifests: Iterable[Manifest]) -> list[Problem]:
    """What the pods of these objects need and no manifest brings."""
    held = {(one.kind, one.name) for one in manifests} | MADE_BY_THE_CLUSTER
    return [
        _missing(manifest, path, kind, name, [known for one, known in held if one == kind])
        for manifest in running
        for path, kind, name in _named(manifest.raw.get("spec"), "spec")
        if (kind, name) not in held
    ]


def _missing(manifest: Manifest, path: str, kind: str, name: str, known: list[str]) -> Problem:
    close = get_close_matches(name, known, n=1)
    fix = f"did you mean `{close[0]}`?" if close else f"add a {kind} of that name to the files"
    return manifest.problem(f"no {kind} `{name}` is in the files", path, fix)


def _named(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Every object named below: the path to its name, its kind and its name."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _named(item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        yield from _named(item, f"{path}.{key}")
        if key in REFERENCES and isinstance(item, dict) and not item.get("optional"):
            kind, field = REFERENCES[key]
            field = field if field in item else "name"
            if isinstance(item.get(field), str):
                yield f"{path}.{key}.{field}", kind, item[field]
