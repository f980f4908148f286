"""Option --set: sets fields of the jobs in the files."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pliant.cli.input.manifest_checks import frontend_of
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import InvalidInput, input_error
from pliant.cli.input.yaml_reader import parse_documents

_PATH_STEP = re.compile(r"\.?(?:\[(\d+)\]|\[?\"([^\"]+)\"\]?|([^.\[\]\"]+))")
_SET_EXAMPLE = "write PATH=VALUE, for example --set spec.replicaSpecs.worker.replicas=4"


def with_job_fields_set(manifests: Iterable[Manifest], settings: Sequence[str]) -> list[Manifest]:
    """Return the manifests with the fields set in every job; other objects are unchanged."""
    changes = [_parse_setting(text) for text in settings]
    if not changes:
        return list(manifests)
    changed = []
    for manifest in manifests:
        if frontend_of(manifest) is not None:
            raw = copy.deepcopy(manifest.raw)
            for text, steps, value in changes:
                _set_field(raw, text, steps, value)
            manifest = replace(manifest, raw=raw)
        changed.append(manifest)
    return changed


def _parse_setting(text: str) -> tuple[str, list[str | int], Any]:
    path, equals, written = text.partition("=")
    steps = _parse_path(path.strip())
    if not equals or not steps:
        raise input_error(f"--set {text}: not PATH=VALUE", fix=_SET_EXAMPLE)
    if steps[0] not in ("spec", "metadata", "runPolicy"):
        raise input_error(f"--set {text}: the path must start with spec or metadata", fix=f"--set spec.{text}")
    return path.strip(), steps, _parse_value(text, written)


def _parse_path(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        step = _PATH_STEP.match(path, position)
        if step is None:
            return []
        number, quoted, word = step.groups()
        steps.append(int(number) if number is not None else quoted or word)
        position = step.end()
    return steps


def _parse_value(setting: str, value_text: str) -> Any:
    """Parse a value as YAML: 4 is a number, true a boolean, [a, b] a list, '4' a string."""
    try:
        documents = parse_documents("--set", value_text.encode())
    except InvalidInput as error:
        fix = "put the value in quotes, inside those of the shell"
        raise input_error(f"--set {setting}: {error.problems[0].message}", fix=fix) from None
    return documents[0].value if documents else ("" if not value_text.strip() else None)


def _set_field(raw: dict[str, Any], setting: str, path: list[str | int], value: Any) -> None:
    node: Any = raw
    for step, following in pairwise(path):
        _check_step(node, setting, step)
        if isinstance(node, list):
            node = node[int(step)]
        else:
            node = node.setdefault(step, [] if isinstance(following, int) else {})
    last = path[-1]
    _check_step(node, setting, last)
    node[int(last) if isinstance(node, list) else last] = value


def _check_step(node: Any, setting: str, step: str | int) -> None:
    """Raise InvalidInput for a step that does not fit the value."""
    if isinstance(node, list):
        if not isinstance(step, int) and not str(step).isdigit():
            raise input_error(f"--set {setting}: `{step}` is not an index of a list", fix="write an index: [0]")
        if int(step) >= len(node):
            raise input_error(f"--set {setting}: [{step}] is out of range", fix=f"the list has {len(node)} items")
    elif not isinstance(node, dict):
        raise input_error(f"--set {setting}: the parent of `{step}` is not a mapping", fix="shorten the path")
    elif isinstance(step, int):
        raise input_error(f"--set {setting}: [{step}] is an index, but there is no list", fix="write a field")
