"""Validation of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation import downward_fields
from pliant.embedded.apiserver.admission.validation.claims import validate_claim_spec
from pliant.embedded.apiserver.admission.validation.names import validate_dns_label, validate_name
from pliant.embedded.apiserver.admission.validation.paths import validate_file_path, validate_no_backsteps
from pliant.embedded.apiserver.admission.validation.pods.storage_volumes import (
    is_storage_source,
    validate_storage_source,
)
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import validate_metadata
from pliant.embedded.storage.stored_objects import Object
from pliant.schemas.quantity import parse_quantity

_SOURCES: Final = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""The sources of a volume, in the order in which the API server validates them: all but the first are forbidden."""
_PATHS_OF_SECOND_SOURCES: Final = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
_PROJECTED_SOURCES: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MODE_MESSAGE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_MIN_TOKEN_SECONDS: Final = 600
_MAX_TOKEN_SECONDS: Final = 2**32


def validate_volumes(
    volumes: list[Object], path: str, *, pod_name: str = "", is_template: bool = False
) -> tuple[dict[str, Object], list[FieldError]]:
    """Return the valid volumes by name, which containers may mount, and the errors of the others."""
    valid: dict[str, Object] = {}
    errors: list[FieldError] = []
    created = {f"{pod_name}-{each.get('name') or ''}" for each in volumes if pod_name and each.get("ephemeral")}
    for index, volume in enumerate(volumes):
        found = list(_validate_volume(volume, f"{path}[{index}]", valid))
        found += _validate_image_and_claim(volume, f"{path}[{index}]", pod_name, is_template=is_template)
        if found:
            errors += found
        else:
            valid[volume["name"]] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid_field(f"{path}[{index}].persistentVolumeClaim.claimName", claim, detail))
    return valid, errors


def _validate_image_and_claim(volume: Object, path: str, pod_name: str, *, is_template: bool) -> Iterator[FieldError]:
    """Yield the errors of sources whose validity depends on the pod; they are the last ones, if there are several."""
    present = [source for source in _SOURCES if volume.get(source) is not None]
    if present[:1] == ["ephemeral"] and pod_name and volume.get("name"):
        for error in validate_name("", f"{pod_name}-{volume['name']}"):
            yield invalid_field(f"{path}.name", volume["name"], error.message)
    if present == ["image"] and not is_template and not volume["image"].get("reference"):
        yield required_field(f"{path}.image.reference")


def _validate_volume(volume: Object, path: str, names: Collection[str]) -> Iterator[FieldError]:
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
        if index:
            reported = _PATHS_OF_SECOND_SOURCES.get(source, source)
            yield forbidden_field(f"{path}.{reported}", "may not specify more than 1 volume type")
        elif is_storage_source(source):
            yield from validate_storage_source(source, volume, path)
        else:
            yield from _validate_content(source, volume[source], f"{path}.{source}")


def _validate_content(source: str, content: Object, path: str) -> Iterator[FieldError]:
    match source:
        case "emptyDir" if parse_quantity(content.get("sizeLimit") or 0) < 0:
            yield forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        case "hostPath":
            yield from _validate_host_path(content, path)
        case "secret" | "configMap":
            field = "secretName" if source == "secret" else "name"
            if not content.get(field):
                yield required_field(f"{path}.{field}")
            yield from _validate_mode(content.get("defaultMode"), f"{path}.defaultMode", is_required=True)
            yield from _validate_items(content, path)
        case "persistentVolumeClaim" if not content.get("claimName"):
            yield required_field(f"{path}.claimName")
        case "downwardAPI" | "projected":
            yield from _validate_mode(content.get("defaultMode"), f"{path}.defaultMode", is_required=True)
            for item in content.get("items") or ():
                yield from _validate_downward_file(item, path)
            yield from _validate_projected(content, path)
        case "ephemeral":
            yield from _validate_ephemeral(content.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate")
        case "image" if (policy := content.get("pullPolicy") or "") not in _PULL_POLICIES:
            yield unsupported_value(f"{path}.pullPolicy", policy, _PULL_POLICIES)


def _validate_ephemeral(template: Object | None, path: str) -> Iterator[FieldError]:
    if template is None:
        yield required_field(path)
        return
    for error in validate_metadata(template.get("metadata") or {}):
        yield replace(error, field=f"{path}.{error.field}")
    yield from validate_claim_spec(template.get("spec") or {}, f"{path}.spec")


def _validate_host_path(content: Object, path: str) -> Iterator[FieldError]:
    value = content.get("path") or ""
    if value:
        yield from validate_no_backsteps(value, f"{path}.path")
    else:
        yield required_field(f"{path}.path")
        return
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
