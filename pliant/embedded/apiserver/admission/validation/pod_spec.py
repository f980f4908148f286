"""Validation of the spec of a pod or of a pod template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.containers import validate_containers
from pliant.embedded.apiserver.admission.validation.label_selectors import validate_label_selector
from pliant.embedded.apiserver.admission.validation.node_affinity import validate_node_affinity
from pliant.embedded.apiserver.admission.validation.security import validate_pod_security
from pliant.embedded.apiserver.admission.validation.tolerations import validate_tolerations
from pliant.embedded.apiserver.admission.validation.volumes import validate_volumes
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_MAX_NAMESERVERS: Final = 3
_MAX_SEARCH_PATHS: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


_REQUIRED_HERE: Final = re.compile(
    r"(spec\.template\.)?spec\.("
    r"(init)?[cC]ontainers\[\d+\]\.(\w+Probe|lifecycle|ports|volumeMounts|env\[\d+\]\.(name|valueFrom\.(?!fileKeyRef)))"
    r"|volumes\[\d+\]\.(configMap|secret|downwardAPI|projected|hostPath)"
    r"|(hostAliases|readinessGates|topologySpreadConstraints)\[).*"
)


def without_required_fields(errors: list[FieldError]) -> list[FieldError]:
    """Return the errors of a schema without those of required fields that `validate_pod_spec` validates itself."""
    required = FieldErrorType.REQUIRED.cause
    return [each for each in errors if each.reason != required or not _REQUIRED_HERE.fullmatch(each.field)]


def validate_pod_spec(spec: Object, *, is_template: bool = False) -> list[FieldError]:
    """Validate the spec of a pod or of a pod template; the paths of errors begin with `spec`."""
    volumes, errors = validate_volumes(spec.get("volumes") or [], "spec.volumes")
    if not is_template:
        errors += _validate_token_volumes(spec)
    errors += validate_containers(spec, volumes)
    errors += _validate_host_ports(spec, is_template=is_template)
    for validate in (
        validate_pod_security,
        validate_node_affinity,
        _validate_dns,
        _validate_names,
        validate_tolerations,
        _validate_host_aliases,
        _validate_spread_constraints,
    ):
        errors += validate(spec)
    return errors


def _validate_token_volumes(spec: Object) -> Iterator[FieldError]:
    if spec.get("serviceAccountName"):
        return
    for index, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                yield forbidden_field(path, "must not be specified when serviceAccountName is not set")


def _validate_host_ports(spec: Object, *, is_template: bool) -> Iterator[FieldError]:
    """Require that pods of the host network use their ports; templates may leave them out."""
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            is_omitted = is_template and not port.get("hostPort")
            if not is_omitted and (port.get("hostPort") or 0) != (port.get("containerPort") or 0):
                path = f"spec.containers[{index}].ports[{number}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid_field(path, port.get("hostPort") or 0, detail)


def _validate_names(spec: Object) -> Iterator[FieldError]:
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec.get(field):
            yield from names.validate_name(f"spec.{field}", spec[field])
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from names.validate_name(f"spec.{field}", spec[field], DNS_LABEL_RULE)
    yield from names.validate_labels("spec.nodeSelector", spec.get("nodeSelector") or {})
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        path = f"spec.readinessGates[{index}].conditionType"
        yield from names.validate_qualified_name(path, gate.get("conditionType") or "")


def _validate_dns(spec: Object) -> Iterator[FieldError]:
    config, path = spec.get("dnsConfig"), "spec.dnsConfig"
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None" and not servers:
        field = path if config is None else f"{path}.nameservers"
        yield required_field(field, "must provide at least one DNS nameserver when `dnsPolicy` is None")
        return
    config = config or {}
    searches = config.get("searches") or []
    if len(servers) > _MAX_NAMESERVERS:
        yield invalid_field(f"{path}.nameservers", servers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from names.validate_ip_address(f"{path}.nameservers[{index}]", server)
    if len(searches) > _MAX_SEARCH_PATHS:
        yield invalid_field(f"{path}.searches", searches, f"must not have more than {_MAX_SEARCH_PATHS} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield invalid_field(f"{path}.searches", searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            yield from names.validate_name(f"{path}.searches[{index}]", search.removesuffix(".").replace("_", "a"))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required_field(f"{path}.options[{index}]", "must not be empty")


def _validate_host_aliases(spec: Object) -> Iterator[FieldError]:
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        path = f"spec.hostAliases[{index}]"
        yield from names.validate_ip_address(f"{path}.ip", alias.get("ip") or "")
        for number, hostname in enumerate(alias.get("hostnames") or ()):
            yield from names.validate_name(f"{path}.hostnames[{number}]", hostname)


def _validate_spread_constraints(spec: Object) -> Iterator[FieldError]:
    constraints = spec.get("topologySpreadConstraints") or []
    for index, constraint in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{index}]"
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield invalid_field(f"{path}.maxSkew", skew, "must be greater than zero")
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not key:
            yield required_field(f"{path}.topologyKey", "can not be empty")
        else:
            yield from names.validate_qualified_name(f"{path}.topologyKey", key)
        if action not in _UNSATISFIABLE:
            yield unsupported_value(f"{path}.whenUnsatisfiable", action, _UNSATISFIABLE)
        later = [
            (each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints[index + 1 :]
        ]
        if (key, action) in later:
            yield duplicate_value(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        domains = constraint.get("minDomains")
        if domains is not None and domains <= 0:
            yield invalid_field(f"{path}.minDomains", domains, "must be greater than zero")
        if domains is not None and action != _UNSATISFIABLE[0]:
            detail = f"can only use minDomains if whenUnsatisfiable={_UNSATISFIABLE[0]}, not {action}"
            yield invalid_field(f"{path}.minDomains", domains, detail)
        yield from validate_label_selector(constraint.get("labelSelector") or {}, f"{path}.labelSelector")
