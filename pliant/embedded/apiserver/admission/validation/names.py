"""Validation of the names that fields of built-in kinds contain."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import (
    DNS_LABEL_RULE,
    DNS_SUBDOMAIN_RULE,
    NameRule,
    config_key_problem,
    label_value_problem,
    name_problem,
    qualified_name_problem,
)

_PORT_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_HEADER_NAME: Final = re.compile(r"[-A-Za-z0-9]+")
_MAX_PORT: Final = 65535
_LINK_LOCAL_MULTICAST: Final = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}
_MAX_PORT_NAME_LENGTH: Final = 15
_PORT_MESSAGE: Final = f"must be between 1 and {_MAX_PORT}, inclusive"


def validate_name(path: str, name: str, rule: NameRule = DNS_SUBDOMAIN_RULE) -> Iterator[FieldError]:
    if problem := name_problem(name, rule) or ("" if name else rule.message):
        yield invalid_field(path, name, problem)


def validate_dns_label(path: str, name: str) -> Iterator[FieldError]:
    yield from validate_name(path, name, DNS_LABEL_RULE)


def validate_required_name(path: str, name: str, rule: NameRule = DNS_SUBDOMAIN_RULE) -> Iterator[FieldError]:
    if name:
        yield from validate_name(path, name, rule)
    else:
        yield required_field(path)


def validate_qualified_name(path: str, name: str) -> Iterator[FieldError]:
    if problem := qualified_name_problem(name):
        yield invalid_field(path, name, problem)


def validate_labels(path: str, labels: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from validate_qualified_name(path, key)
        if problem := label_value_problem(value):
            yield invalid_field(path, value, problem)


def validate_config_key(path: str, key: str) -> Iterator[FieldError]:
    if not key:
        yield required_field(path)
    elif problem := config_key_problem(key):
        yield invalid_field(path, key, problem)


def validate_environment_name(path: str, name: str) -> Iterator[FieldError]:
    """Yield an error unless a name has only printable ASCII characters other than `=`."""
    if not name:
        yield required_field(path)
    elif any(not " " <= char <= "~" or char == "=" for char in name):
        detail = "a valid environment variable name must consist only of printable ASCII characters other than '='"
        yield invalid_field(path, name, detail)


def validate_port_number(path: str, port: Any) -> Iterator[FieldError]:
    if not isinstance(port, int) or not 1 <= port <= _MAX_PORT:
        yield invalid_field(path, port, _PORT_MESSAGE)


def port_name_problem(name: str) -> str:
    """Return what is wrong with the name of a container port; empty if it is valid."""
    if len(name) > _MAX_PORT_NAME_LENGTH:
        return f"must be no more than {_MAX_PORT_NAME_LENGTH} characters"
    if not _PORT_NAME.fullmatch(name):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if "--" in name:
        return "must not contain consecutive hyphens"
    return "" if re.search("[a-z]", name) else "must contain at least one letter (a-z)"


def validate_port_or_name(path: str, port: Any) -> Iterator[FieldError]:
    if isinstance(port, str):
        if problem := port_name_problem(port):
            yield invalid_field(path, port, problem)
    else:
        yield from validate_port_number(path, port)


def validate_header_name(path: str, name: str) -> Iterator[FieldError]:
    if not _HEADER_NAME.fullmatch(name):
        detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name')"
        yield invalid_field(path, name, detail)


def validate_ip_address(path: str, address: str) -> Iterator[FieldError]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        yield invalid_field(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def validate_endpoint_address(path: str, address: str) -> Iterator[FieldError]:
    """Yield an error for an address at which no endpoint of a service can be."""
    parsed = ipaddress.ip_address(address)
    for is_wrong, what in (
        (parsed.is_unspecified, f"unspecified ({address})"),
        (parsed.is_loopback, "in the loopback range (127.0.0.0/8, ::1/128)"),
        (parsed.is_link_local, "in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            parsed in _LINK_LOCAL_MULTICAST[parsed.version],
            "in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ):
        if is_wrong:
            yield invalid_field(path, address, f"may not be {what}")
