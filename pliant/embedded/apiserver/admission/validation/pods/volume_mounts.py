"""Validation of the volumes that a container mounts or uses as block devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pliant.embedded.apiserver.admission.validation.paths import validate_relative_path
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(container: Object, path: str, volumes: Mapping[str, Object]) -> Iterator[FieldError]:
    """Yield the errors of mounts; `volumes` are the valid volumes of the pod by their names."""
    devices = container.get("volumeDevices") or ()
    device_names = {each.get("name") or "" for each in devices}
    device_paths = {each.get("devicePath") or "" for each in devices}
    known: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        mount_path, name, target = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required_field(f"{mount_path}.name")
        if name not in volumes:
            yield FieldError(f"{mount_path}.name", "FieldValueNotFound", f'Not found: "{name}"')
        if not target:
            yield required_field(f"{mount_path}.mountPath")
        elif "\0" in target:
            yield invalid_field(f"{mount_path}.mountPath", target, "must not contain NUL")
        if target in known:
            yield invalid_field(f"{mount_path}.mountPath", target, "must be unique")
        known.add(target)
        if name in device_names:
            yield invalid_field(f"{mount_path}.name", name, "must not already exist in volumeDevices")
        if target in device_paths:
            yield invalid_field(f"{mount_path}.mountPath", target, "must not already exist as a path in volumeDevices")
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid_field(f"{mount_path}.subPathExpr", mount["subPathExpr"], detail)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):  # API servers name this path, and those of propagation, without the index
                yield from validate_relative_path(mount[field], f"{path}.{field}")
        yield from _validate_propagation(container, mount, path)


def _validate_propagation(container: Object, mount: Object, path: str) -> Iterator[FieldError]:
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None and propagation not in _PROPAGATIONS:
        yield unsupported_value(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden_field(f"{path}.mountPropagation", detail)
    if recursive is not None and recursive not in _RECURSIVE:
        yield unsupported_value(f"{path}.recursiveReadOnly", recursive, _RECURSIVE)
    elif recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden_field(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden_field(f"{path}.recursiveReadOnly", detail)


def validate_volume_devices(container: Object, path: str, volumes: Mapping[str, Object]) -> Iterator[FieldError]:
    mounts = container.get("volumeMounts") or ()
    mounted_names = {each.get("name") or "" for each in mounts}
    mounted_paths = {each.get("mountPath") or "" for each in mounts}
    names: set[str] = set()
    targets: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        name, target, device_path = device.get("name") or "", device.get("devicePath") or "", f"{path}[{index}]"
        if not name:
            yield required_field(f"{device_path}.name")
        if name in names:
            yield invalid_field(f"{device_path}.name", name, "must be unique")
        if name not in volumes:
            yield FieldError(f"{device_path}.name", "FieldValueNotFound", f'Not found: "{name}"')
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid_field(f"{device_path}.name", name, detail)
        if not target:
            yield required_field(f"{device_path}.devicePath")
        if target in targets:
            yield invalid_field(f"{device_path}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            yield invalid_field(f"{device_path}.devicePath", target, "can not contain backsteps ('..')")
        else:
            targets.add(target)
        if name in mounted_names:
            yield invalid_field(f"{device_path}.name", name, "must not already exist in volumeMounts")
        if target in mounted_paths:
            detail = "must not already exist as a path in volumeMounts"
            yield invalid_field(f"{device_path}.devicePath", target, detail)
        if name:
            names.add(name)
