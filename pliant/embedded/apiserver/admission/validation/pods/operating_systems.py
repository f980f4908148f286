"""Validation of the operating system of a pod: what Linux and Windows each do not have, and options of Windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.names import validate_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field, unsupported_value
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_SUBDOMAIN_RULE, name_problem
from pliant.embedded.storage.stored_objects import Object

_CONTAINER_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")
_SYSTEMS: Final = ("linux", "windows")
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_LINUX_POD_FIELDS: Final = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_LINUX_POD_SECURITY: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"),
    *("runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_LINUX_CONTAINER_SECURITY: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_MAX_CREDENTIAL_BYTES: Final = 64 * 1024
_MAX_DOMAIN_LENGTH: Final = 256
_MAX_USER_LENGTH: Final = 104
_NETBIOS_NAME: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_FORBIDDEN_IN_USERS: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def iterate_security_contexts(spec: Object) -> Iterator[tuple[str, Object]]:
    """Yield the path and the security context of every container."""
    for group in _CONTAINER_GROUPS:
        for index, container in enumerate(spec.get(group) or ()):
            yield f"spec.{group}[{index}].securityContext", container.get("securityContext") or {}


def validate_operating_system(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of `os`, and of fields that the other operating system does not have."""
    if spec.get("os") is None:
        return
    match spec["os"].get("name") or "":
        case "":
            yield required_field("spec.os.name")
        case "linux":
            for path, context in (("spec.securityContext", _pod_context(spec)), *iterate_security_contexts(spec)):
                if context.get("windowsOptions") is not None:
                    yield forbidden_field(f"{path}.windowsOptions", "windows options cannot be set for a linux pod")
        case "windows":
            yield from _validate_windows(spec)
        case other:
            yield unsupported_value("spec.os", other, _SYSTEMS)


def _pod_context(spec: Object) -> Object:
    context: Object = spec.get("securityContext") or {}
    return context


def _validate_windows(spec: Object) -> Iterator[FieldError]:
    context = _pod_context(spec)
    for field in _LINUX_POD_FIELDS:
        if spec.get(field) or (spec.get(field) is False and field in ("hostUsers", "shareProcessNamespace")):
            yield forbidden_field(f"spec.{field}", _NOT_ON_WINDOWS)
    for field in _LINUX_POD_SECURITY:
        if context.get(field) not in (None, []):
            yield forbidden_field(f"spec.securityContext.{field}", _NOT_ON_WINDOWS)
    for path, each in iterate_security_contexts(spec):
        for field in _LINUX_CONTAINER_SECURITY:
            if each.get(field) is not None:
                yield forbidden_field(f"{path}.{field}", _NOT_ON_WINDOWS)


def validate_windows_options(context: Object, path: str) -> Iterator[FieldError]:
    options, path = context.get("windowsOptions"), f"{path}.windowsOptions"
    if options is None:
        return
    if options.get("gmsaCredentialSpecName") is not None:
        yield from validate_name(f"{path}.gmsaCredentialSpecName", options["gmsaCredentialSpecName"])
    credential = options.get("gmsaCredentialSpec")
    if credential is not None and not 0 < len(credential.encode()) <= _MAX_CREDENTIAL_BYTES:
        yield invalid_field(f"{path}.gmsaCredentialSpec", credential, "must be no empty string and under 64 KiB")
    user = options.get("runAsUserName")
    if user is not None and (problem := _user_problem(user)):
        yield invalid_field(f"{path}.runAsUserName", user, f"runAsUserName {problem}")


def _user_problem(name: str) -> str:
    """Return what is wrong with the name of a Windows user; empty if it is valid."""
    if not name:
        return "cannot be an empty string"
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "cannot contain control characters"
    if name.count("\\") > 1:
        return "cannot contain more than one backslash"
    domain, backslash, user = name.rpartition("\\")
    is_domain = _NETBIOS_NAME.fullmatch(domain) or (domain and not name_problem(domain, DNS_SUBDOMAIN_RULE))
    if backslash and (len(domain) >= _MAX_DOMAIN_LENGTH or not is_domain):
        return "must have a domain of the NetBios or the DNS format"
    if not 0 < len(user.encode()) <= _MAX_USER_LENGTH or not user.strip(". ") or _FORBIDDEN_IN_USERS.search(user):
        return "must have a user without forbidden characters"
    return ""


def validate_host_process(spec: Object) -> Iterator[FieldError]:
    """Require that all containers of a pod or none run on the Windows host."""
    of_pod = (_pod_context(spec).get("windowsOptions") or {}).get("hostProcess")
    decisions: list[Any] = []
    for path, context in iterate_security_contexts(spec):
        own = (context.get("windowsOptions") or {}).get("hostProcess")
        if None not in (of_pod, own) and of_pod != own:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            yield invalid_field(f"{path}.windowsOptions.hostProcess", own, detail)
        decisions.append(of_pod if own is None else own)
    if not any(decisions):
        return
    if not all(decisions):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield invalid_field("spec", "", detail)
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid_field("spec.hostNetwork", False, detail)
