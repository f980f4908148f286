"""Finds the proxy for a URL."""

from __future__ import annotations

from urllib.parse import urlsplit


def proxy_from_environment(url: str) -> str | None:
    """Return the proxy for a URL from the environment; None for the local host."""
    from urllib.request import getproxies, proxy_bypass  # takes as long to import as all of our client

    address = urlsplit(url)
    host = address.hostname or ""
    is_local = host == "localhost" or host.startswith("127.") or host == "::1"
    return None if is_local or proxy_bypass(host) else getproxies().get(address.scheme)
