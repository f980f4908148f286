"""IP addresses, networks and URLs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.declarations import Library
from pliant.embedded.cel.values import EvaluationError, register_value_class

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class CidrValue:
    address: _Address
    prefix: int

    @property
    def network(self) -> _Network:
        return ipaddress.ip_network((self.address, self.prefix), strict=False)


register_value_class(ipaddress.IPv4Address, types.IP)
register_value_class(ipaddress.IPv6Address, types.IP)
register_value_class(CidrValue, types.CIDR)
register_value_class(SplitResult, types.URL)


def _parse_ip(text: str) -> _Address:
    if "%" in text:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        problem = f'ParseAddr("{text}"): unable to parse IP'
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string: {problem}') from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parse_cidr(text: str) -> CidrValue:
    address, slash, prefix = text.partition("/")
    try:
        parsed = ipaddress.ip_address(address)
        is_valid = slash and prefix.isdecimal() and str(int(prefix)) == prefix and int(prefix) <= parsed.max_prefixlen
    except ValueError:
        is_valid = False
    if not is_valid or "%" in text:
        cause = "network address parse error during conversion from string: "
        problem = f'netip.ParsePrefix("{text}"): {_find_prefix_problem(address, slash)}'
        raise EvaluationError(f"{cause}{cause}{problem}")
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return CidrValue(parsed, int(prefix))


def _find_prefix_problem(address: str, slash: str) -> str:
    if not slash:
        return "no '/'"
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return f'ParseAddr("{address}"): unable to parse IP'
    return "prefix length out of range"


def parses(parser: Any) -> Any:
    """Return a function that tells whether a parser accepts a text."""

    def is_valid(*arguments: Any) -> bool:
        try:
            parser(*arguments)
        except EvaluationError:
            return False
        return True

    return is_valid


def _format_ip(address: _Address) -> str:
    return str(address)


def _contains_ip(cidr: CidrValue, address: Any) -> bool:
    address = _parse_ip(address) if isinstance(address, str) else address
    return address.version == cidr.address.version and address in cidr.network


def _contains_cidr(cidr: CidrValue, other: Any) -> bool:
    other = _parse_cidr(other) if isinstance(other, str) else other
    return other.prefix >= cidr.prefix and _contains_ip(cidr, other.address)


def _masked(cidr: CidrValue) -> CidrValue:
    return CidrValue(cidr.network.network_address, cidr.prefix)


def _is_global_unicast(address: _Address) -> bool:
    is_broadcast = isinstance(address, ipaddress.IPv4Address) and int(address) == 2**32 - 1
    others = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not is_broadcast and not others


def _is_link_local_multicast(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.IPv4Network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def _parse_url(text: str) -> SplitResult:
    """Return an absolute URL or an absolute path, as Go's ParseRequestURI accepts them."""
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": {error}') from None
    is_absolute = bool(url.scheme) and text[: len(url.scheme)].isascii() and (url.netloc or url.path.startswith("/"))
    if any(ord(character) < 33 or ord(character) == 127 for character in text) or not (
        text.startswith("/") or is_absolute
    ):
        problem = "invalid URI for request"
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": {problem}')
    return url


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _hostname(url: SplitResult) -> str:
    host = _host(url)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _port(url: SplitResult) -> str:
    return _host(url).rpartition("]")[2].partition(":")[2]


def declare_network_functions(library: Library) -> None:
    declare = library.declare
    declare("ip(string) -> IP", _parse_ip)
    declare("isIP(string) -> bool", parses(_parse_ip))
    declare("ip.isCanonical(string) -> bool", lambda text: str(_parse_ip(text)) == text)
    declare("string(IP) -> string", _format_ip)
    declare("(IP).family() -> int", lambda address: address.version)
    declare("(IP).isUnspecified() -> bool", lambda address: address.is_unspecified)
    declare("(IP).isLoopback() -> bool", lambda address: address.is_loopback)
    declare("(IP).isLinkLocalMulticast() -> bool", _is_link_local_multicast)
    declare("(IP).isLinkLocalUnicast() -> bool", lambda address: address.is_link_local)
    declare("(IP).isGlobalUnicast() -> bool", _is_global_unicast)
    declare("cidr(string) -> CIDR", _parse_cidr)
    declare("isCIDR(string) -> bool", parses(_parse_cidr))
    declare("string(CIDR) -> string", lambda cidr: f"{cidr.address}/{cidr.prefix}")
    declare("(CIDR).containsIP(string) -> bool", _contains_ip, "cidr_contains_ip_string")
    declare("(CIDR).containsIP(IP) -> bool", _contains_ip)
    declare("(CIDR).containsCIDR(string) -> bool", _contains_cidr, "cidr_contains_cidr_string")
    declare("(CIDR).containsCIDR(CIDR) -> bool", _contains_cidr)
    declare("(CIDR).ip() -> IP", lambda cidr: cidr.address, "cidr_ip")
    declare("(CIDR).prefixLength() -> int", lambda cidr: cidr.prefix)
    declare("(CIDR).masked() -> CIDR", _masked)
    declare("url(string) -> URL", _parse_url)
    declare("isURL(string) -> bool", parses(_parse_url))
    declare("(URL).getScheme() -> string", lambda url: url.scheme)
    declare("(URL).getHost() -> string", _host)
    declare("(URL).getHostname() -> string", _hostname)
    declare("(URL).getPort() -> string", _port)
    declare("(URL).getEscapedPath() -> string", lambda url: url.path)
    query = "(URL).getQuery() -> map<string, list<string>>"
    declare(query, lambda url: parse_qs(url.query, keep_blank_values=True))
