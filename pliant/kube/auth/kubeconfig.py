"""Reads kubeconfig files as kubectl does: it merges several files, and the first definition of a name wins."""

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
    """A named entry of a kubeconfig. Paths in it are relative to `file`."""

    values: Mapping[str, Any]
    file: Path
    description: str

    def error(self, message: str) -> UserError:
        return UserError(f"{self.file}: {self.description}: {message}")

    def get_text(self, field: str) -> str:
        value = self.values.get(field) or ""
        if not isinstance(value, str):
            raise self.error(f"{field} must be a string")
        return value

    def get_flag(self, field: str) -> bool:
        value = self.values.get(field) or False
        if not isinstance(value, bool):
            raise self.error(f"{field} must be true or false")
        return value

    def get_text_list(self, field: str) -> tuple[str, ...]:
        value = self.values.get(field) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(f"{field} must be a list of strings")
        return tuple(value)

    def get_section(self, field: str) -> KubeconfigEntry | None:
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"{field} must be an object")
        return KubeconfigEntry(value, self.file, f"{self.description}: {field}")

    def get_path(self, field: str) -> Path | None:
        return self.file.parent / self.get_text(field) if self.get_text(field) else None

    def get_inline_data(self, field: str) -> bytes:
        """Return the decoded `<field>-data`; empty if it is absent."""
        try:
            return base64.b64decode(self.get_text(f"{field}-data"), validate=True)
        except binascii.Error as error:
            raise self.error(f"{field}-data is not base64") from error

    def get_data_or_file(self, field: str) -> bytes:
        """Return the decoded `<field>-data`, or the content of the file named by `<field>`; empty without either."""
        if data := self.get_inline_data(field):
            return data
        path = self.get_path(field)
        try:
            return path.read_bytes() if path else b""
        except OSError as error:
            raise self.error(f"{field}: {path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedContext:
    context_name: str
    files: tuple[Path, ...]
    context: KubeconfigEntry
    cluster: KubeconfigEntry
    user: KubeconfigEntry


def kubeconfig_env_paths(environment: Mapping[str, str]) -> list[Path]:
    """Return the files named by $KUBECONFIG, whether they exist or not."""
    return [Path(path) for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]


def select_context(files: Sequence[Path], context_name: str | None) -> SelectedContext:
    """Return the named context, or the current context if no name is given."""
    documents = [(_load_document(file), file) for file in files]
    current = next((document["current-context"] for document, _ in documents if document.get("current-context")), "")
    name = context_name or str(current)
    if not name:
        known = ", ".join(sorted({name for name, _ in _list_entries(documents, "context")})) or "no contexts defined"
        raise UserError(f"{files[0]}: current-context is not set; choose a context with --context ({known})")
    context = _find_entry(documents, "context", name)
    user = context.get_text("user")
    return SelectedContext(
        context_name=name,
        files=tuple(files),
        context=context,
        cluster=_find_entry(documents, "cluster", context.get_text("cluster")),
        user=_find_entry(documents, "user", user) if user else KubeconfigEntry({}, files[0], "user"),
    )


KubeconfigDocuments = list[tuple[dict[str, Any], Path]]


def _load_document(file: Path) -> dict[str, Any]:
    try:
        document = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as error:
        raise UserError(f"kubeconfig {file}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UserError(f"kubeconfig {file} is not YAML: {_summarize_yaml_error(error)}") from error
    if document is None and file.stat().st_size == 0:
        return {}  # like kubectl, which accepts /dev/null as a kubeconfig
    if not isinstance(document, dict):
        raise UserError(f"kubeconfig {file} must contain an object")
    return document


def _summarize_yaml_error(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    message = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}: {message}" if mark else str(message)


def _list_entries(documents: KubeconfigDocuments, kind: str) -> list[tuple[str, KubeconfigEntry]]:
    entries = []
    for document, file in documents:
        listed = document.get(f"{kind}s") or []
        if not isinstance(listed, list):
            raise UserError(f"kubeconfig {file}: {kind}s must be a list")
        for entry in listed:
            if isinstance(entry, dict) and isinstance(entry.get(kind), dict):
                name = str(entry.get("name"))
                entries.append((name, KubeconfigEntry(entry[kind], file, f"{kind} {name!r}")))
    return entries


def _find_entry(documents: KubeconfigDocuments, kind: str, name: str) -> KubeconfigEntry:
    entries = _list_entries(documents, kind)
    for entry_name, entry in entries:
        if entry_name == name:
            return entry
    files = ", ".join(str(file) for _, file in documents)
    known = ", ".join(sorted({entry_name for entry_name, _ in entries}))
    raise UserError(f"no {kind} named {name!r} in {files}{f' (defined: {known})' if known else ''}")
