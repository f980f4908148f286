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
class KubeconfigEntry:
    """A named part of a kubeconfig, and the file that relative paths in it start from."""

    values: Mapping[str, Any]
    file: Path
    description: str

    def error(self, message: str) -> UserError:
        """What is wrong with this entry, and where it stands."""
        return UserError(f"{self.file}: {self.description}: {message}")

    def get_text(self, field: str) -> str:
        """A field that holds text; empty when it is not there."""
        value = self.values.get(field) or ""
        if not isinstance(value, str):
            raise self.error(f"{field} must be text")
        return value

    def get_flag(self, field: str) -> bool:
        """A field that holds true or false."""
        value = self.values.get(field) or False
        if not isinstance(value, bool):
            raise self.error(f"{field} must be true or false")
        return value

    def get_text_list(self, field: str) -> tuple[str, ...]:
        """A field that holds a list of texts."""
        value = self.values.get(field) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(f"{field} must be a list of texts")
        return tuple(value)

    def get_section(self, field: str) -> KubeconfigEntry | None:
        """A field that holds fields of its own; None when it is not there."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{field} must hold fields")
        return KubeconfigEntry(value, self.file, f"{self.description}: {field}")

    def get_path(self, field: str) -> Path | None:
        """The file that a field names, found from the place of the kubeconfig."""
        return self.file.parent / self.get_text(field) if self.get_text(field) else None

    def get_inline_data(self, field: str) -> bytes:
        """What `<field>-data` holds; empty when it is not there."""
        try:
            return base64.b64decode(self.get_text(f"{field}-data"), validate=True)
        except binascii.Error as problem:
            raise self.error(f"{field}-data is not base64") from problem

    def get_data(self, field: str) -> bytes:
        """What `<field>-data` holds, or the file that `<field>` names; empty without either."""
        if found := self.get_inline_data(field):
            return found
        path = self.get_path(field)
        try:
            return path.read_bytes() if path else b""
        except OSError as problem:
            raise self.error(f"{field}: {path}: {problem.strerror}") from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedContext:
    """One context with all it refers to."""

    context_name: str
    files: tuple[Path, ...]
    context: KubeconfigEntry
    cluster: KubeconfigEntry
    user: KubeconfigEntry


def kubeconfig_env_paths(environment: Mapping[str, str]) -> list[Path]:
    """The files that $KUBECONFIG names, there or not."""
    return [Path(path) for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]


def select_context(files: Sequence[Path], context_name: str | None) -> SelectedContext:
    """The context asked for, or else the current one."""
    documents = [(_load_document(file), file) for file in files]
    current = next((document["current-context"] for document, _ in documents if document.get("current-context")), "")
    name = context_name or str(current)
    if not name:
        known = ", ".join(sorted(_entry_names(documents, "context"))) or "there is none"
        raise UserError(f"{files[0]}: no current-context; choose one with --context ({known})")
    wanted = _find_entry(documents, "context", name)
    user = wanted.get_text("user")
    return SelectedContext(
        context_name=name,
        files=tuple(files),
        context=wanted,
        cluster=_find_entry(documents, "cluster", wanted.get_text("cluster")),
        user=_find_entry(documents, "user", user) if user else KubeconfigEntry({}, files[0], "user"),
    )


KubeconfigDocuments = list[tuple[dict[str, Any], Path]]


def _load_document(file: Path) -> dict[str, Any]:
    try:
        document = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as problem:
        raise UserError(f"kubeconfig {file}: {problem.strerror}") from problem
    except yaml.YAMLError as problem:
        raise UserError(f"kubeconfig {file} is not YAML: {_summarize_yaml_error(problem)}") from problem
    if document is None and file.stat().st_size == 0:
        return {}  # kubectl takes /dev/null for a kubeconfig, too
    if not isinstance(document, dict):
        raise UserError(f"kubeconfig {file} holds no configuration")
    return document


def _summarize_yaml_error(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    said = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    return f"line {mark.line + 1}: {said}" if mark else str(said)


def _list_entries(documents: KubeconfigDocuments, kind: str) -> list[tuple[str, KubeconfigEntry]]:
    found = []
    for document, file in documents:
        listed = document.get(f"{kind}s") or []
        if not isinstance(listed, list):
            raise UserError(f"kubeconfig {file}: {kind}s must be a list")
        for entry in listed:
            if isinstance(entry, dict) and isinstance(entry.get(kind), dict):
                name = str(entry.get("name"))
                found.append((name, KubeconfigEntry(entry[kind], file, f"{kind} {name!r}")))
    return found


def _entry_names(documents: KubeconfigDocuments, kind: str) -> set[str]:
    return {name for name, _ in _list_entries(documents, kind)}


def _find_entry(documents: KubeconfigDocuments, kind: str, name: str) -> KubeconfigEntry:
    for known, entry in _list_entries(documents, kind):
        if known == name:
            return entry
    files = ", ".join(str(file) for _, file in documents)
    known = ", ".join(sorted(_entry_names(documents, kind)))
    raise UserError(f"no {kind} named {name!r} in {files}{f' (there: {known})' if known else ''}")
