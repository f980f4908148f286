"""Validation of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation import downward_fields
from pliant.embedded.apiserver.admission.validation.names import validate_dns_label
from pliant.embedded.apiserver.admission.validation.paths import validate_file_path, validate_no_backsteps
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_SOURCES: Final = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""The sources of a volume, in the order in which the API server validates them: all but the first are forbidden."""
_PROJECTED_SOURCES: Final = (
    *("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"),
)
_MODE_MESSAGE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_MIN_TOKEN_SECONDS: Final = 600
_MAX_TOKEN_SECONDS: Final = 2**32


def validate_volumes(volumes: list[Object], path: str) -> tuple[set[str], list[FieldError]]:
    """Return the names of valid volumes, which containers may mount, and the errors of the others."""
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        found = list(_validate_volume(volume, f"{path}[{index}]", names))
        if found:
            errors += found
        else:
            names.add(volume["name"])
    return names, errors


def _validate_volume(volume: Object, path: str, names: set[str]) -> Iterator[FieldError]:
    yield from _validate_source(volume, path)
    name = volume.get("name") or ""
    if name:
        yield from validate_dns_label(f"{path}.name", name)
    else:
        yield required_field(f"{path}.name")
    if name in names:
        yield duplicate_value(f"{path}.name", name)


def _validate_source(volume: Object, path: str) -> Iterator[FieldError]:
    present = [source for source in _SOURCES if volume.get(source) is not None]
    if not present:
        yield required_field(path, "must specify a volume type")
    for index, source in enumerate(present):
        source_path = f"{path}.{'downwarAPI' if index and source == 'downwardAPI' else source}"
        if index:
            yield forbidden_field(source_path, "may not specify more than 1 volume type")
        else:
            yield from _validate_content(source, volume[source], source_path)


def _validate_content(source: str, content: Object, path: str) -> Iterator[FieldError]:
    match source:
        case "emptyDir":
            limit = content.get("sizeLimit")
            if limit is not None and parse_quantity(limit) < 0:
                yield forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        case "hostPath":
            yield from _validate_host_path(content, path)
        case "secret" | "configMap":
            field = "secretName" if source == "secret" else "name"
            if not content.get(field):
                yield required_field(f"{path}.{field}")
            yield from _validate_mode(content.get("defaultMode"), f"{path}.defaultMode", is_required=True)
            yield from _validate_items(content, path)
        case "persistentVolumeClaim":
            if not content.get("claimName"):
                yield required_field(f"{path}.claimName")
        case "downwardAPI":
            yield from _validate_mode(content.get("defaultMode"), f"{path}.defaultMode", is_required=True)
            for item in content.get("items") or ():
                yield from _validate_downward_file(item, path)
        case "projected":
            yield from _validate_mode(content.get("defaultMode"), f"{path}.defaultMode", is_required=True)
            yield from _validate_projected(content, path)


def _validate_host_path(content: Object, path: str) -> Iterator[FieldError]:
    value = content.get("path") or ""
    if value:
        yield from validate_no_backsteps(value, f"{path}.path")
    else:
        yield required_field(f"{path}.path")
    if (content.get("type") or "") not in _HOST_PATH_TYPES:
        yield unsupported_value(f"{path}.type", content["type"], _HOST_PATH_TYPES)


def _validate_mode(mode: Any, path: str, *, is_required: bool = False) -> Iterator[FieldError]:
    if mode is None:
        if is_required:
            yield required_field(path)
    elif not 0 <= mode <= 0o777:
        yield invalid_field(path, mode, _MODE_MESSAGE)


def _validate_items(content: Object, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(content.get("items") or ()):
        yield from _validate_key_to_path(item, f"{path}.items[{index}]")


def _validate_key_to_path(item: Object, path: str) -> Iterator[FieldError]:
    if not item.get("key"):
        yield required_field(f"{path}.key")
    yield from validate_file_path(item.get("path") or "", f"{path}.path")
    yield from _validate_mode(item.get("mode"), f"{path}.mode")


def _validate_downward_file(item: Object, path: str) -> Iterator[FieldError]:
    yield from validate_file_path(item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        yield from downward_fields.validate_field_ref(field, f"{path}.fieldRef", downward_fields.VOLUME_FIELDS)
        if resource is not None:
            yield invalid_field(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        yield from downward_fields.validate_resource_ref(resource, f"{path}.resourceFieldRef", requires_container=True)
    else:
        yield required_field(path, "one of fieldRef and resourceFieldRef is required")
    yield from _validate_mode(item.get("mode"), f"{path}.mode")


def _validate_projected(content: Object, path: str) -> Iterator[FieldError]:
    paths: set[str] = set()
    for index, source in enumerate(content.get("sources") or ()):
        source_path = f"{path}.sources[{index}]"
        present = [name for name in _PROJECTED_SOURCES if source.get(name) is not None]
        for name in present:
            yield from _validate_projection(name, source[name], path, f"{source_path}.{name}")
            for item in source[name].get("items") or ():
                target = item.get("path")
                if target and target in paths:
                    yield invalid_field(path, target, "conflicting duplicate paths")
                paths.add(target)
        if len(present) > 1:
            yield forbidden_field(source_path, "may not specify more than 1 volume type per source")


def _validate_projection(name: str, content: Object, path: str, source_path: str) -> Iterator[FieldError]:
    match name:
        case "secret" | "configMap":
            if not content.get("name"):
                yield required_field(f"{source_path}.name")
            yield from _validate_items(content, source_path)
        case "downwardAPI":
            for item in content.get("items") or ():
                yield from _validate_downward_file(item, source_path)
        case "serviceAccountToken":
            seconds = content.get("expirationSeconds") or 0
            if seconds < _MIN_TOKEN_SECONDS:
                detail = "may not specify a duration less than 10 minutes"
                yield invalid_field(f"{source_path}.expirationSeconds", seconds, detail)
            if seconds > _MAX_TOKEN_SECONDS:
                detail = "may not specify a duration larger than 2^32 seconds"
                yield invalid_field(f"{source_path}.expirationSeconds", seconds, detail)
            yield from validate_file_path(content.get("path") or "", f"{path}.path")
