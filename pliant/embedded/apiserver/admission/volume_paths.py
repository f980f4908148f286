"""Validation of the paths in the volumes and volume mounts of a pod, with the messages of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_BACKSTEP_MESSAGE = "must not contain '..'"
_RELATIVE_MESSAGE = "must be a relative path"


def validate_volume_paths(spec: Object) -> Iterator[FieldError]:
    """Yield an error for each path that leads outside its volume, or that cannot be a path."""
    for index, volume in enumerate(spec.get("volumes") or ()):
        path = f"spec.volumes[{index}]"
        yield from _validate_sources(volume, path)
        projected = volume.get("projected") or {}
        for number, source in enumerate(projected.get("sources") or ()):
            yield from _validate_sources(source, f"{path}.projected.sources[{number}]")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            for number, mount in enumerate(container.get("volumeMounts") or ()):
                yield from _validate_mount(mount, f"spec.{group}[{index}].volumeMounts[{number}]")


def _validate_sources(source: Object, path: str) -> Iterator[FieldError]:
    for kind in ("configMap", "secret", "downwardAPI"):
        for index, item in enumerate((source.get(kind) or {}).get("items") or ()):
            yield from _validate_file_path(item.get("path"), f"{path}.{kind}.items[{index}].path")
    if (token := source.get("serviceAccountToken")) is not None:
        yield from _validate_file_path(token.get("path"), f"{path}.serviceAccountToken.path")
    if (host_path := source.get("hostPath")) is not None:
        value = host_path.get("path") or ""
        if not value:
            yield required_field(f"{path}.hostPath.path")
        elif ".." in value.split("/"):
            yield invalid_field(f"{path}.hostPath.path", value, _BACKSTEP_MESSAGE)
        elif "\0" in value:
            yield invalid_field(f"{path}.hostPath.path", value, "must not contain NUL")


def _validate_mount(mount: Object, path: str) -> Iterator[FieldError]:
    if not mount.get("mountPath"):
        yield required_field(f"{path}.mountPath")
    elif "\0" in mount["mountPath"]:
        yield invalid_field(f"{path}.mountPath", mount["mountPath"], "must not contain NUL")
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield invalid_field(
            f"{path}.subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
        )
    for field in ("subPath", "subPathExpr"):
        if mount.get(field):
            yield from _validate_relative_path(mount[field], f"{path}.{field}")


def _validate_file_path(value: Any, path: str) -> Iterator[FieldError]:
    if not value:
        yield required_field(path)
        return
    errors = list(_validate_relative_path(value, path))
    yield from errors
    if not errors and value.startswith(".."):
        yield invalid_field(path, value, "must not start with '..'")


def _validate_relative_path(value: str, path: str) -> Iterator[FieldError]:
    if value.startswith("/"):
        yield invalid_field(path, value, _RELATIVE_MESSAGE)
    if ".." in value.split("/"):
        yield invalid_field(path, value, _BACKSTEP_MESSAGE)
    if "\0" in value:
        yield invalid_field(path, value, "must not contain NUL")
