"""Reads manifest files, and reports objects that cannot run locally."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pliant.cli.input.mistaken_inputs import suggest_for_unreadable_path, suggest_for_workload
from pliant.cli.input.problems import InputProblem, InvalidInput, SourceLocation, input_error
from pliant.cli.input.yaml_reader import MAX_FILE_BYTES, YamlDocument, parse_documents

STDIN_PATH = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as written in a file."""

    raw: dict[str, Any]
    document: YamlDocument
    path_prefix: str = ""  # the path within the document: empty, or an item of a List

    @property
    def api_version(self) -> str:
        return str(self.raw["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.raw["kind"])

    @property
    def name(self) -> str:
        return str(self.raw["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.raw["metadata"].get("namespace", ""))

    @property
    def title(self) -> str:
        """`AITrainingJob bert`"""
        return f"{self.kind} {self.name}".rstrip()

    def field_problem(self, message: str, field: str, fix: str = "") -> InputProblem:
        location = self.document.location_of(f"{self.path_prefix}.{field}".lstrip("."))
        return InputProblem(message=message, location=location, field=field, object_title=self.title, fix=fix)


def load_manifests(paths: Sequence[str]) -> list[Manifest]:
    """Read all objects of the files in their order; `-` reads standard input."""
    manifests = [
        manifest
        for path in paths
        for document in parse_documents("<stdin>" if path == STDIN_PATH else path, _read_file(path))
        for manifest in _parse_objects(document, document.value, "")
    ]
    if not manifests:
        fix = "add a job: `pliant new generic NAME` creates an example"
        raise input_error(f"{', '.join(paths)} contains no objects", fix=fix)
    if duplicates := _duplicate_problems(manifests):
        raise InvalidInput(duplicates)
    return manifests


def _read_file(path: str) -> bytes:
    if path == STDIN_PATH:
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    problem, fix = suggest_for_unreadable_path(path)
    if problem:
        raise input_error(problem, location=SourceLocation(source=path), fix=fix)
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        fix = "check the path" if isinstance(error, FileNotFoundError) else ""
        raise input_error(f"cannot read: {error.strerror}", location=SourceLocation(source=path), fix=fix) from None


def _parse_objects(document: YamlDocument, value: Any, path_prefix: str) -> Iterator[Manifest]:
    def field_error(message: str, field: str, fix: str) -> InvalidInput:
        location = document.location_of(f"{path_prefix}.{field}".strip("."))
        return InvalidInput([InputProblem(message=message, location=location, field=field, fix=fix)])

    if not isinstance(value, dict):
        fix = "start with `apiVersion:` and `kind:`; a Python script needs a name that ends with .py"
        raise field_error("not a Kubernetes object", "", fix)
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise field_error(f"`{field}` is missing", field, f"add `{field}:`, for a job {_SAMPLE_FIELDS[field]}")
    items = value.get("items")
    if value["kind"] == "List" and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _parse_objects(document, item, f"items[{index}]")
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        close = get_close_matches("name", metadata if isinstance(metadata, dict) else (), n=1)
        fix = f"did you mean `name` where `{close[0]}` is written?" if close else "add `metadata: {name: …}`"
        raise field_error(f"the {value['kind']} has no name", f"metadata.{close[0] if close else 'name'}", fix)
    yield Manifest(value, document, path_prefix)


_SAMPLE_FIELDS = {"apiVersion": "`apiVersion: elasticdeeplearning.ai/v1`", "kind": "`kind: AITrainingJob`"}


def _duplicate_problems(manifests: Iterable[Manifest]) -> list[InputProblem]:
    seen: dict[tuple[str, str, str, str], Manifest] = {}
    problems = []
    for manifest in manifests:
        key = (manifest.api_version, manifest.kind, manifest.namespace, manifest.name)
        first = seen.setdefault(key, manifest)
        if first is not manifest and manifest.name:
            location = first.document.location_of(first.path_prefix)
            message = f"{manifest.title} is defined twice, first at {location}"
            problems.append(manifest.field_problem(message, "metadata.name", "rename or remove one of them"))
    return problems


def unserved_kind_problems(manifests: Iterable[Manifest], served: Collection[tuple[str, str]]) -> list[InputProblem]:
    """Return the manifests whose `(apiVersion, kind)` is not served."""
    unserved = [manifest for manifest in manifests if (manifest.api_version, manifest.kind) not in served]
    return [_unserved_kind_problem(manifest, served) for manifest in unserved]


def _unserved_kind_problem(manifest: Manifest, served: Collection[tuple[str, str]]) -> InputProblem:
    if fix := suggest_for_workload(manifest.raw):
        return manifest.field_problem(f"a {manifest.kind} is not a training job", "kind", fix)
    kinds = sorted({kind for _, kind in served})
    versions = sorted(version for version, kind in served if kind == manifest.kind)
    if versions:
        message = f"{manifest.kind} is not served as `{manifest.api_version}`"
        return manifest.field_problem(message, "apiVersion", f"write `apiVersion: {versions[0]}`")
    close = get_close_matches(manifest.kind, kinds, n=1)
    fix = f"did you mean `{close[0]}`?" if close else f"kinds served: {', '.join(kinds)}"
    return manifest.field_problem(f"unknown kind `{manifest.kind}`", "kind", fix)


def no_command_problems(manifests: Iterable[Manifest]) -> list[InputProblem]:
    """Return the containers without a command; local pods do not use the command of the image."""
    return [
        manifest.field_problem(_NO_COMMAND, f"{path}.command", _COMMAND_FIX)
        for manifest in manifests
        for path, container in _find_containers(manifest.raw.get("spec"), "spec")
        if not container.get("command") and not container.get("args")
    ]


_NO_COMMAND = "no command: local pods do not use the image, so they cannot use its command"
_COMMAND_FIX = "set the command, for example `command: [python3, train.py]`"


def _find_containers(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every container below with its path."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_containers(item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if key in ("initContainers", "containers") and isinstance(item, list):
            for index, container in enumerate(item):
                if isinstance(container, dict):
                    yield f"{path}.{key}[{index}]", container
        else:
            yield from _find_containers(item, f"{path}.{key}")
