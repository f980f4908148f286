"""Reads the objects that a person wrote, and refuses what cannot run here before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pliant.cli.input.problems import InputProblem, InvalidInput, SourceLocation, input_error
from pliant.cli.input.yaml_reader import MAX_FILE_BYTES, YamlDocument, parse_documents

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as written."""

    raw: dict[str, Any]
    document: YamlDocument
    path_prefix: str = ""
    """The path of the object within its document: empty, or an item of a List."""

    @property
    def api_version(self) -> str:
        """Which group and version it is written for."""
        return str(self.raw["apiVersion"])

    @property
    def kind(self) -> str:
        """What kind of object it is."""
        return str(self.raw["kind"])

    @property
    def name(self) -> str:
        """Its name; empty where the server is to make one up."""
        return str(self.raw["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        """The namespace it names; empty if it names none."""
        return str(self.raw["metadata"].get("namespace", ""))

    @property
    def title(self) -> str:
        """What people call it: `AITrainingJob bert`."""
        return f"{self.kind} {self.name}".rstrip()

    def field_problem(self, message: str, field: str, fix: str = "") -> InputProblem:
        """Something wrong with one of its fields."""
        place = self.document.location_of(f"{self.path_prefix}.{field}".lstrip("."))
        return InputProblem(message=message, location=place, field=field, object_title=self.title, fix=fix)


def load_manifests(paths: Sequence[str]) -> list[Manifest]:
    """Every object in the files, in the order written; `-` reads the standard input."""
    found = [
        manifest
        for path in paths
        for written in parse_documents("<stdin>" if path == STDIN else path, _read_file(path))
        for manifest in _parse_objects(written, written.value, "")
    ]
    if not found:
        names = ", ".join(paths)
        raise input_error(f"{names} holds no objects", fix="write a job into it; examples/quickstart/job.yaml is one")
    twins = _duplicate_problems(found)
    if twins:
        raise InvalidInput(twins)
    return found


def _read_file(path: str) -> bytes:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        fix = "check the path" if isinstance(error, FileNotFoundError) else ""
        fix = f"name the files in it: {path.rstrip('/')}/*.yaml" if isinstance(error, IsADirectoryError) else fix
        raise input_error(f"cannot read it: {error.strerror}", location=SourceLocation(source=path), fix=fix) from None


def _parse_objects(document: YamlDocument, value: Any, path_prefix: str) -> Iterator[Manifest]:
    """The object in a document, or the objects in a List."""

    def wrong(what: str, field: str, fix: str) -> InvalidInput:
        place = document.location_of(f"{path_prefix}.{field}".strip("."))
        return InvalidInput([InputProblem(message=what, location=place, field=field, fix=fix)])

    if not isinstance(value, dict):
        raise wrong("not a Kubernetes object", "", "start with `apiVersion:` and `kind:`")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise wrong(f"`{field}` is missing", field, f"add `{field}:`, for a job {_SAMPLE_FIELDS[field]}")
    items = value.get("items")
    if value["kind"] == "List" and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _parse_objects(document, item, f"items[{index}]")
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        close = get_close_matches("name", metadata if isinstance(metadata, dict) else (), n=1)
        fix = f"did you mean `name` where `{close[0]}` is written?" if close else "add `metadata: {name: …}`"
        raise wrong(f"the {value['kind']} has no name", f"metadata.{close[0] if close else 'name'}", fix)
    yield Manifest(value, document, path_prefix)


_SAMPLE_FIELDS = {"apiVersion": "`apiVersion: elasticdeeplearning.ai/v1`", "kind": "`kind: AITrainingJob`"}


def _duplicate_problems(manifests: Iterable[Manifest]) -> list[InputProblem]:
    seen: dict[tuple[str, str, str, str], Manifest] = {}
    problems = []
    for manifest in manifests:
        key = (manifest.api_version, manifest.kind, manifest.namespace, manifest.name)
        first = seen.setdefault(key, manifest)
        if first is not manifest and manifest.name:
            where = first.document.location_of(first.path_prefix)
            what = f"{manifest.title} is written twice, first at {where}"
            problems.append(manifest.field_problem(what, "metadata.name", "rename one, or take one away"))
    return problems


def check_kinds(manifests: Iterable[Manifest], served: Collection[tuple[str, str]]) -> list[InputProblem]:
    """What asks for a kind that is not among the `(apiVersion, kind)` served."""
    return [
        _unserved_kind_problem(manifest, served)
        for manifest in manifests
        if (manifest.api_version, manifest.kind) not in served
    ]


def _unserved_kind_problem(manifest: Manifest, served: Collection[tuple[str, str]]) -> InputProblem:
    kinds = sorted({kind for _, kind in served})
    homes = sorted(version for version, kind in served if kind == manifest.kind)
    if homes:
        what = f"{manifest.kind} is not served as `{manifest.api_version}`"
        return manifest.field_problem(what, "apiVersion", f"write `apiVersion: {homes[0]}`")
    close = get_close_matches(manifest.kind, kinds, n=1)
    fix = f"did you mean `{close[0]}`?" if close else f"kinds served: {', '.join(kinds)}"
    return manifest.field_problem(f"no kind `{manifest.kind}` is served here", "kind", fix)


def check_commands(manifests: Iterable[Manifest]) -> list[InputProblem]:
    """Containers that name no program to start: images are not run here, so nothing else can name it."""
    return [
        manifest.field_problem(_NO_COMMAND, f"{path}.command", _COMMAND_FIX)
        for manifest in manifests
        for path, container in _find_containers(manifest.raw.get("spec"), "spec")
        if not container.get("command") and not container.get("args")
    ]


_NO_COMMAND = "no command to run: images are not run here, so their own is not known"
_COMMAND_FIX = "name the program to start, for example `command: [python3, train.py]`"


def _find_containers(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every container described anywhere below, with its path."""
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
