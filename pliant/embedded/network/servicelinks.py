"""Tell programs of services by variables, by the rules of Kubernetes: for those that ask no names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pliant.embedded.names import API, Names
from pliant.embedded.views import ServicePort, ServiceView


def service_variables(names: Names, pod: Mapping[str, Any], located: Callable[[str], str]) -> dict[str, str]:
    """`NAME_SERVICE_HOST` and its kin for the services that a pod is told of, at the addresses it finds them at.

    That of the API server is told to every pod, unless its namespace has one of the same name.
    """
    namespace = pod["metadata"]["namespace"]
    told = [each for each in (names.service(*API),) if each is not None]
    if pod["spec"].get("enableServiceLinks") is not False:
        told += names.addressed(namespace)
    variables: dict[str, str] = {}
    for service in told:
        if service.spec.ports:
            variables.update(_of(service, located(service.spec.cluster_ip)))
    return variables


def _of(service: ServiceView, address: str) -> Iterator[tuple[str, str]]:
    name, ports = _variable(service.metadata.name), service.spec.ports
    yield f"{name}_SERVICE_HOST", address
    yield f"{name}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{name}_SERVICE_PORT_{_variable(port.name)}", str(port.port)
    yield f"{name}_PORT", _url(ports[0], address)
    for port in ports:
        prefix = f"{name}_PORT_{port.port}_{port.protocol}"
        yield prefix, _url(port, address)
        yield f"{prefix}_PROTO", port.protocol.lower()
        yield f"{prefix}_PORT", str(port.port)
        yield f"{prefix}_ADDR", address


def _url(port: ServicePort, address: str) -> str:
    return f"{port.protocol.lower()}://{address}:{port.port}"


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
