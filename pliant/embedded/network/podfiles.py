"""The files in which a pod's programs look for names, by the rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.embedded.network.zone import DOMAIN, search_list

_USUAL_OPTION = ("ndots", "5")
_OWN_RULES = "None"
_NO_CLUSTER = "Default"

Raw = Mapping[str, Any]


def hosts_text(pod: Raw, host: str, address: str) -> str:
    """What a pod's /etc/hosts says: itself, and the aliases it asks for."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    subdomain = spec.get("subdomain") or ""
    whole = f"{host}.{subdomain}.{namespace}.svc.{DOMAIN} " if subdomain else ""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", f"{address}\t{whole}{host}"]
    aliases = ((each["ip"], each.get("hostnames") or ()) for each in spec.get("hostAliases") or ())
    lines += (f"{target}\t{' '.join(names)}" for target, names in aliases)
    return "".join(f"{line}\n" for line in lines)


def resolver_text(pod: Raw, server: str) -> str:
    """What a pod's /etc/resolv.conf says: whom to ask, and where to look for short names.

    The resolvers of the machine cannot be reached from a pod: the cluster's own asks them on its behalf.
    """
    spec = pod["spec"]
    wishes = spec.get("dnsConfig") or {}
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    servers = [] if policy == _OWN_RULES else [server]
    searches = [] if policy in (_OWN_RULES, _NO_CLUSTER) else [*search_list(pod["metadata"]["namespace"])]
    options = {} if policy in (_OWN_RULES, _NO_CLUSTER) else dict([_USUAL_OPTION])
    servers += wishes.get("nameservers") or ()
    searches += wishes.get("searches") or ()
    options |= {each["name"]: each.get("value") or "" for each in wishes.get("options") or ()}
    return "".join(f"{line}\n" for line in _lines(servers, searches, options))


def _lines(servers: list[str], searches: list[str], options: Mapping[str, str]) -> Iterator[str]:
    yield from (f"nameserver {each}" for each in dict.fromkeys(servers))
    if searches:
        yield f"search {' '.join(dict.fromkeys(searches))}"
    if options:
        yield "options " + " ".join(f"{name}:{value}" if value else name for name, value in options.items())
