"""Validation of the paths of files in volumes, which must not lead outside."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.schema import FieldError

_BACKSTEP_MESSAGE = "must not contain '..'"
_RELATIVE_MESSAGE = "must be a relative path"


def validate_file_path(value: str, path: str) -> Iterator[FieldError]:
    """Yield the errors of the path of a file in a volume."""
    if not value:
        yield required_field(path)
        return
    errors = list(validate_relative_path(value, path))
    yield from errors
    if not errors and value.startswith(".."):
        yield invalid_field(path, value, "must not start with '..'")


def validate_relative_path(value: str, path: str) -> Iterator[FieldError]:
    if value.startswith("/"):
        yield invalid_field(path, value, _RELATIVE_MESSAGE)
    yield from validate_no_backsteps(value, path)


def validate_no_backsteps(value: str, path: str) -> Iterator[FieldError]:
    if ".." in value.split("/"):
        yield invalid_field(path, value, _BACKSTEP_MESSAGE)
    # The kubelet cannot open such a path.
    if "\0" in value:
        yield invalid_field(path, value, "must not contain NUL")
