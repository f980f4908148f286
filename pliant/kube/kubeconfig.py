"""Reads kubeconfig files as kubectl does: several are one, and the first to name something is right about it."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pliant.errors import UserError


@dataclass(frozen=True, slots=True)
class Entry:
    """A named part of a kubeconfig, and the file that relative paths in it start from."""

    values: Mapping[str, Any]
    file: Path
    what: str

    def problem(self, said: str) -> UserError:
        """What is wrong with this entry, and where it stands."""
        return UserError(f"{self.file}: {self.what}: {said}")

    def text(self, field: str) -> str:
        """A field that holds text; empty when it is not there."""
        value = self.values.get(field) or ""
        if not isinstance(value, str):
            raise self.problem(f"{field} must be text")
        return value

    def flag(self, field: str) -> bool:
        """A field that holds true or false."""
        value = self.values.get(field) or False
        if not isinstance(value, bool):
            raise self.problem(f"{field} must be true or false")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A field that holds a list of texts."""
        value = self.values.get(field) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.problem(f"{field} must be a list of texts")
        return tuple(value)

    def part(self, field: str) -> Entry | None:
        """A field that holds fields of its own; None when it is not there."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.problem(f"{field} must hold fields")
        return Entry(value, self.file, f"{self.what}: {field}")

    def path(self, field: str) -> Path | None:
        """The file that a field names, found from the place of the kubeconfig."""
        return self.file.parent / self.text(field) if self.text(field) else None

    def embedded(self, field: str) -> bytes:
        """What `<field>-data` holds; empty when it is not there."""
        try:
            return base64.b64decode(self.text(f"{field}-data"), validate=True)
        except binascii.Error as problem:
            raise self.problem(f"{field}-data is not base64") from problem

    def data(self, field: str) -> bytes:
        """What `<field>-data` holds, or the file that `<field>` names; empty without either."""
        if found := self.embedded(field):
            return found
        path = self.path(field)
        try:
            return path.read_bytes() if path else b""
        except OSError as problem:
            raise self.problem(f"{field}: {path}: {problem.strerror}") from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One context with all it refers to."""

    name: str
    files: tuple[Path, ...]
    context: Entry
    cluster: Entry
    user: Entry


def listed_files(environment: Mapping[str, str]) -> list[Path]:
    """The files that $KUBECONFIG names, there or not."""
    return [Path(path) for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]


def choose(files: Sequence[Path], context: str | None) -> Choice:
    """The context asked for, or else the current one."""
    documents = [(_load(file), file) for file in files]
    current = next(
        (document["current-context"] for document, _ in documents if document.get("current-context")), ""
    )
    name = context or str(current)
    if not name:
        known = ", ".join(sorted(_names(documents, "context"))) or "there is none"
        raise UserError(f"{files[0]}: no current-context; choose one with --context ({known})")
    wanted = _find(documents, "context", name)
    user = wanted.text("user")
    return Choice(
        name=name,
        files=tuple(files),
        context=wanted,
        cluster=_find(documents, "cluster", wanted.text("cluster")),
        user=_find(documents, "user", user) if user else Entry({}, files[0], "user"),
    )


Documents = list[tuple[dict[str, Any], Path]]


def _load(file: Path) -> dict[str, Any]:
    try:
        document = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as problem:
        raise UserError(f"kubeconfig {file}: {problem.strerror}") from problem
    except yaml.YAMLError as problem:
        raise UserError(f"kubeconfig {file} is not YAML: {_in_one_line(problem)}") from problem
    if document is None and file.stat().st_size == 0:
        return {}  # kubectl takes /dev/null for a kubeconfig, too
    if not isinstance(document, dict):
        raise UserError(f"kubeconfig {file} holds no configuration")
    return document


def _in_one_line(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    said = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    return f"line {mark.line + 1}: {said}" if mark else str(said)


def _entries(documents: Documents, kind: str) -> list[tuple[str, Entry]]:
    found = []
    for document, file in documents:
        listed = document.get(f"{kind}s") or []
        if not isinstance(listed, list):
            raise UserError(f"kubeconfig {file}: {kind}s must be a list")
        for entry in listed:
            if isinstance(entry, dict) and isinstance(entry.get(kind), dict):
                name = str(entry.get("name"))
                found.append((name, Entry(entry[kind], file, f"{kind} {name!r}")))
    return found


def _names(documents: Documents, kind: str) -> set[str]:
    return {name for name, _ in _entries(documents, kind)}


def _find(documents: Documents, kind: str, name: str) -> Entry:
    for known, entry in _entries(documents, kind):
        if known == name:
            return entry
    files = ", ".join(str(file) for _, file in documents)
    known = ", ".join(sorted(_names(documents, kind)))
    raise UserError(f"no {kind} named {name!r} in {files}{f' (there: {known})' if known else ''}")
