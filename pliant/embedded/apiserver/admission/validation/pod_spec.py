"""Validation of the spec of a pod or of a pod template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.containers import PodContext, validate_containers
from pliant.embedded.apiserver.admission.validation.node_affinity import validate_node_affinity
from pliant.embedded.apiserver.admission.validation.pods.affinity import validate_pod_affinity
from pliant.embedded.apiserver.admission.validation.pods.ephemeral_containers import validate_ephemeral_containers
from pliant.embedded.apiserver.admission.validation.pods.operating_systems import (
    validate_host_process,
    validate_operating_system,
)
from pliant.embedded.apiserver.admission.validation.pods.pod_resources import validate_pod_resources
from pliant.embedded.apiserver.admission.validation.pods.resource_claims import validate_pod_claims
from pliant.embedded.apiserver.admission.validation.pods.spread_constraints import validate_spread_constraints
from pliant.embedded.apiserver.admission.validation.resources import validate_resources
from pliant.embedded.apiserver.admission.validation.security import validate_host_users, validate_pod_security
from pliant.embedded.apiserver.admission.validation.tolerations import validate_tolerations
from pliant.embedded.apiserver.admission.validation.volumes import validate_volumes
from pliant.embedded.apiserver.http.errors import duplicate_value, forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_MAX_NAMESERVERS: Final = 3
_MAX_SEARCH_PATHS: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_MAX_HOSTNAME_LENGTH: Final = 64


def validate_pod_spec(spec: Object, *, pod_name: str = "", is_template: bool = False) -> list[FieldError]:
    """Validate the spec of a pod or of a pod template; the paths of errors begin with `spec`."""
    volumes, errors = validate_volumes(
        spec.get("volumes") or [], "spec.volumes", pod_name=pod_name, is_template=is_template
    )
    if not is_template:
        errors += _validate_token_volumes(spec)
        errors += _validate_image_names(spec)
    context = PodContext(spec, volumes)
    errors += validate_containers(context)
    errors += validate_ephemeral_containers(context)
    errors += _validate_host_ports(spec, is_template=is_template)
    for validate in _VALIDATORS:
        errors += validate(spec)
    return errors


def _validate_image_names(spec: Object) -> Iterator[FieldError]:
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            image = container.get("image") or ""
            if image.strip() != image:
                detail = "must not have leading or trailing whitespace"
                yield invalid_field(f"spec.{group}[{index}].image", image, detail)


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


def _validate_hostname_override(spec: Object) -> Iterator[FieldError]:
    name, path = spec.get("hostnameOverride"), "spec.hostnameOverride"
    if name is None:
        return
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield forbidden_field(path, f"may not be specified when {field} is true")
    if len(name) > _MAX_HOSTNAME_LENGTH:
        limit = f"may not be more than {_MAX_HOSTNAME_LENGTH} bytes"
        yield FieldError.of(path, FieldErrorType.TOO_LONG, "", limit)
    yield from names.validate_name(path, name)


def _validate_scheduling_gates(spec: Object) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        path, name = f"spec.schedulingGates[{index}]", gate.get("name") or ""
        yield from names.validate_qualified_name(path, name)
        if name in known:
            yield duplicate_value(path, name)
        known.add(name)


def _validate_overhead(spec: Object) -> Iterator[FieldError]:
    if spec.get("overhead"):
        yield from validate_resources({"limits": spec["overhead"]}, "spec.overhead", ())


def _validate_file_references(spec: Object) -> Iterator[FieldError]:
    """Require that variables from files read these from volumes of the type emptyDir."""
    volumes = {each.get("name") or "": each for each in spec.get("volumes") or ()}
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is None:
                    continue
                path = f"spec.{group}[{index}].env[{number}].valueFrom.fileKeyRef.volumeName"
                name = reference.get("volumeName") or ""
                if name not in volumes:
                    yield FieldError(path, "FieldValueNotFound", f'Not found: "{name}"')
                elif volumes[name].get("emptyDir") is None:
                    yield invalid_field(path, name, "referenced volume must be of type emptyDir")


_VALIDATORS: Final[tuple[Callable[[Object], Iterator[FieldError]], ...]] = (
    validate_pod_claims,
    validate_pod_resources,
    validate_pod_security,
    validate_host_users,
    validate_host_process,
    validate_operating_system,
    validate_node_affinity,
    validate_pod_affinity,
    validate_spread_constraints,
    validate_tolerations,
    _validate_dns,
    _validate_names,
    _validate_hostname_override,
    _validate_host_aliases,
    _validate_scheduling_gates,
    _validate_overhead,
    _validate_file_references,
)
