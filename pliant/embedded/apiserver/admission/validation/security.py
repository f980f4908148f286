"""Validation of the security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.pods.operating_systems import validate_windows_options
from pliant.embedded.apiserver.admission.validation.pods.profiles import validate_profiles
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_MAX_ID: Final = 2**31 - 1
_ID_MESSAGE: Final = f"must be between 0 and {_MAX_ID}, inclusive"
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("Recursive",),
}
_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_MAX_SYSCTL_LENGTH: Final = 253
_IPC_SYSCTLS: Final = ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")


def validate_container_security(context: Object, path: str, *, host_users: bool) -> Iterator[FieldError]:
    """Yield the errors of user, group and profiles, and of privileges that contradict each other."""
    yield from _validate_ids(context, path, "runAsUser", "runAsGroup")
    proc_mount = context.get("procMount")
    if proc_mount is not None and proc_mount not in _PROC_MOUNTS:
        yield unsupported_value(f"{path}.procMount", proc_mount, _PROC_MOUNTS)
    if proc_mount == "Unmasked" and host_users:
        yield invalid_field(f"{path}.procMount", proc_mount, "`hostUsers` must be false to use `Unmasked`")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid_field(path, context, detail)
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid_field(path, context, detail)
    yield from validate_profiles(context, path)
    yield from validate_windows_options(context, path)


def validate_pod_security(spec: Object) -> Iterator[FieldError]:
    context, path = spec.get("securityContext") or {}, "spec.securityContext"
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_field(f"{path}.shareProcessNamespace", True, detail)
    if not context:
        return
    yield from _validate_ids(context, path, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_ID:
            yield invalid_field(f"{path}.supplementalGroups[{index}]", group, _ID_MESSAGE)
    yield from _validate_sysctls(spec, f"{path}.sysctls")
    for field, policies in _POLICIES.items():
        policy = context.get(field)
        if policy is not None and policy not in policies:
            yield unsupported_value(f"{path}.{field}", policy, policies)
    yield from validate_profiles(context, path)
    yield from validate_windows_options(context, path)


def _validate_sysctls(spec: Object, path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, sysctl in enumerate(spec["securityContext"].get("sysctls") or ()):
        name, name_path = sysctl.get("name") or "", f"{path}[{index}].name"
        if not name:
            yield required_field(name_path)
        elif len(name) > _MAX_SYSCTL_LENGTH or not _SYSCTL.fullmatch(name):
            yield invalid_field(name_path, name, f"must have at most {_MAX_SYSCTL_LENGTH} characters and be a sysctl")
        elif name in known:
            yield duplicate_value(name_path, name)
        known.add(name)
        for field in ("hostNetwork", "hostIPC"):
            if spec.get(field) and _is_namespaced(name, field):
                yield invalid_field(name_path, name, f"may not be specified when '{field}' is true")


def _is_namespaced(sysctl: str, host_field: str) -> bool:
    """Return whether a sysctl belongs to the namespace that a pod shares with the host by a field."""
    first = min((sysctl.find(each) for each in "./" if each in sysctl), default=-1)
    name = sysctl if first < 0 or sysctl[first] == "." else sysctl.translate(str.maketrans("./", "/."))
    return name.startswith("net." if host_field == "hostNetwork" else _IPC_SYSCTLS)


def validate_host_users(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of a pod with user IDs of its own that uses namespaces of the host."""
    if spec.get("hostUsers") is not False:
        return
    for field, reported in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield forbidden_field(f"spec.{reported}", "when `hostUsers` is false")
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            if container.get("volumeDevices"):
                yield forbidden_field(f"spec.{group}[{index}].volumeDevices", "when `hostUsers` is false")


def _validate_ids(context: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for field in fields:
        value = context.get(field)
        if value is not None and not 0 <= value <= _MAX_ID:
            yield invalid_field(f"{path}.{field}", value, _ID_MESSAGE)
