"""Validation of volumes of storage systems, which the embedded cluster does not mount."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.paths import validate_relative_path
from pliant.embedded.apiserver.http.errors import invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": ("volumeName",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "csi": ("driver",),
}
_OTHER_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
"""The names by which API servers report errors of a source."""
_BYTE_RANGE: Final = "must be between 0 and 255, inclusive"
_ISCSI_NAMES: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+"),
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}"),
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}"),
}
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
_MAX_DRIVER_LENGTH: Final = 63


def is_storage_source(source: str) -> bool:
    return source in _REQUIRED or source in _VALIDATORS


def validate_storage_source(source: str, volume: Object, path: str) -> Iterator[FieldError]:
    """Yield the errors of a source of a volume; `path` is that of the volume."""
    content, source_path = volume[source], f"{path}.{_OTHER_PATHS.get(source, source)}"
    for field in _REQUIRED.get(source, ()):
        if not content.get(field):
            yield required_field(f"{source_path}.{field}")
    if (validate := _VALIDATORS.get(source)) is not None:
        yield from validate(content, source_path)
    portal = f"{volume.get('name') or ''}:{content.get('targetPortal') or ''}"
    if source == "iscsi" and content.get("initiatorName") is not None and len(portal) > 64:
        yield invalid_field(f"{path}.name", volume.get("name"), "must be shorter if iscsi.initiatorName is specified")


def _validate_git(content: Object, path: str) -> Iterator[FieldError]:
    yield from validate_relative_path(content.get("directory") or "", f"{path}.directory")


def _validate_partition(content: Object, path: str) -> Iterator[FieldError]:
    if not 0 <= (content.get("partition") or 0) <= 255:
        yield invalid_field(f"{path}.partition", content["partition"], _BYTE_RANGE)


def _validate_nfs(content: Object, path: str) -> Iterator[FieldError]:
    if not (content.get("path") or "").startswith("/"):
        yield invalid_field(f"{path}.path", content.get("path") or "", "must be an absolute path")


def _validate_iscsi(content: Object, path: str) -> Iterator[FieldError]:
    for field, reported in (("iqn", "iqn"), ("initiatorName", "initiatorname")):
        name = content.get(field)
        if name is None or (field == "iqn" and not name):
            continue
        pattern = _ISCSI_NAMES.get(name[:3])
        if pattern is None:
            detail = "must be valid format starting with iqn, eui, or naa"
            yield invalid_field(f"{path}.{reported}", name, detail)
        elif not pattern.fullmatch(name):
            yield invalid_field(f"{path}.{reported}", name, "must be valid format")
    if not 0 <= (content.get("lun") or 0) <= 255:
        yield invalid_field(f"{path}.lun", content["lun"], _BYTE_RANGE)
    if (content.get("chapAuthDiscovery") or content.get("chapAuthSession")) and content.get("secretRef") is None:
        yield required_field(f"{path}.secretRef")


def _validate_fibre_channel(content: Object, path: str) -> Iterator[FieldError]:
    targets, identifiers, lun = content.get("targetWWNs"), content.get("wwids"), content.get("lun")
    if not targets and not identifiers:
        yield required_field(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and identifiers:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid_field(f"{path}.targetWWNs", targets, detail)
    if targets and lun is None:
        yield required_field(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets and not 0 <= (lun or 0) <= 255:
        yield invalid_field(f"{path}.lun", lun, _BYTE_RANGE)


def _validate_flocker(content: Object, path: str) -> Iterator[FieldError]:
    name, uuid = content.get("datasetName") or "", content.get("datasetUUID")
    if not name and not uuid:
        yield required_field(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid_field(path, "resource", detail)
    if "/" in name:
        yield invalid_field(f"{path}.datasetName", name, "must not contain '/'")


def _validate_secret_reference(content: Object, path: str) -> Iterator[FieldError]:
    secret = content.get("secretRef")
    if secret is not None and not secret.get("name"):
        yield required_field(f"{path}.secretRef.name")


def _validate_storage_os(content: Object, path: str) -> Iterator[FieldError]:
    for field in ("volumeName", "volumeNamespace"):
        if content.get(field):
            yield from names.validate_name(f"{path}.{field}", content[field], DNS_LABEL_RULE)
    yield from _validate_secret_reference(content, path)


def _validate_quobyte(content: Object, path: str) -> Iterator[FieldError]:
    registry = content.get("registry") or ""
    detail = "must be a host:port pair or multiple pairs separated by commas"
    if registry and len(content.get("tenant") or "") > 64:
        yield required_field(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    elif registry and not all(pair.count(":") == 1 for pair in registry.split(",")):
        yield invalid_field(f"{path}.registry", registry, detail)


def _validate_flex(content: Object, path: str) -> Iterator[FieldError]:
    for key in content.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid_field(f"{path}.options[{key}]", key, detail)


def _validate_azure_disk(content: Object, path: str) -> Iterator[FieldError]:
    mode, kind, uri = content.get("cachingMode"), content.get("kind"), content.get("diskURI") or ""
    if mode is not None and mode not in _CACHING_MODES:
        yield unsupported_value(f"{path}.cachingMode", mode, _CACHING_MODES)
    if kind is None:
        return
    if kind not in _DISK_KINDS:
        yield unsupported_value(f"{path}.kind", kind, _DISK_KINDS)
    prefix = "/subscriptions/" if kind == "Managed" else "https://"
    if not uri.startswith(prefix):
        yield unsupported_value(f"{path}.diskURI", uri, [f"{prefix}…"])


def _validate_csi(content: Object, path: str) -> Iterator[FieldError]:
    driver, secret = content.get("driver") or "", content.get("nodePublishSecretRef")
    if len(driver) > _MAX_DRIVER_LENGTH:
        limit = f"may not be more than {_MAX_DRIVER_LENGTH} bytes"
        yield FieldError.of(f"{path}.driver", FieldErrorType.TOO_LONG, "", limit)
    if driver:
        yield from names.validate_name(f"{path}.driver", driver.lower())
    if secret is not None and not secret.get("name"):
        yield required_field(f"{path}.nodePublishSecretRef.name")
    elif secret is not None:  # API servers name this path so
        yield from names.validate_name(f"{path}.name", secret["name"])


_VALIDATORS: Final[dict[str, Callable[[Object, str], Iterator[FieldError]]]] = {
    "gitRepo": _validate_git,
    "gcePersistentDisk": _validate_partition,
    "awsElasticBlockStore": _validate_partition,
    "nfs": _validate_nfs,
    "iscsi": _validate_iscsi,
    "fc": _validate_fibre_channel,
    "flocker": _validate_flocker,
    "cinder": _validate_secret_reference,
    "quobyte": _validate_quobyte,
    "flexVolume": _validate_flex,
    "azureDisk": _validate_azure_disk,
    "storageos": _validate_storage_os,
    "csi": _validate_csi,
}
