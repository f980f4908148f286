"""`--set`: fields of the jobs in the files, written on the command line instead."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pliant.cli.checks import frontend_of
from pliant.cli.manifests import Manifest
from pliant.cli.problems import InvalidInput, refuse
from pliant.cli.yamltext import documents

_STEP = re.compile(r"\.?(?:\[(\d+)\]|\[?\"([^\"]+)\"\]?|([^.\[\]\"]+))")
_EXAMPLE = "write PATH=VALUE, for example --set spec.replicaSpecs.worker.replicas=4"


def with_settings(manifests: Iterable[Manifest], settings: Sequence[str]) -> list[Manifest]:
    """The objects with these fields set in every job among them; others stay as written."""
    changes = [_read(text) for text in settings]
    if not changes:
        return list(manifests)
    changed = []
    for manifest in manifests:
        if frontend_of(manifest) is not None:
            raw = copy.deepcopy(manifest.raw)
            for text, steps, value in changes:
                _set(raw, text, steps, value)
            manifest = replace(manifest, raw=raw)
        changed.append(manifest)
    return changed


def _read(text: str) -> tuple[str, list[str | int], Any]:
    path, equals, written = text.partition("=")
    steps = _steps(path.strip())
    if not equals or not steps:
        raise refuse(f"--set {text}: not a path and a value", fix=_EXAMPLE)
    if steps[0] not in ("spec", "metadata", "runPolicy"):
        raise refuse(f"--set {text}: a path begins with spec or metadata", fix=f"--set spec.{text}")
    return path.strip(), steps, _value(text, written)


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    place = 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            return []
        number, quoted, word = step.groups()
        steps.append(int(number) if number is not None else quoted or word)
        place = step.end()
    return steps


def _value(text: str, written: str) -> Any:
    """What a value means in YAML: 4 is a number, true a truth, [a, b] a list, '4' a text."""
    try:
        found = documents("--set", written.encode())
    except InvalidInput as error:
        said = error.problems[0].what
        raise refuse(f"--set {text}: {said}", fix="put the value in quotes, within those of the shell") from None
    return found[0].value if found else ("" if not written.strip() else None)


def _set(raw: dict[str, Any], text: str, steps: list[str | int], value: Any) -> None:
    node: Any = raw
    for step, following in pairwise(steps):
        _check(node, text, step)
        if isinstance(node, list):
            node = node[int(step)]
        else:
            node = node.setdefault(step, [] if isinstance(following, int) else {})
    last = steps[-1]
    _check(node, text, last)
    node[int(last) if isinstance(node, list) else last] = value


def _check(node: Any, text: str, step: str | int) -> None:
    """Refuse a step that leads nowhere."""
    if isinstance(node, list):
        if not isinstance(step, int) and not str(step).isdigit():
            raise refuse(f"--set {text}: `{step}` stands where a list is", fix="name one of its items: [0]")
        if int(step) >= len(node):
            raise refuse(f"--set {text}: [{step}] is beyond the end of a list of {len(node)}", fix="count from 0")
    elif not isinstance(node, dict):
        raise refuse(f"--set {text}: nothing can stand below a plain value, at `{step}`", fix="shorten the path")
    elif isinstance(step, int):
        raise refuse(f"--set {text}: [{step}] stands where no list is", fix="name a field")
