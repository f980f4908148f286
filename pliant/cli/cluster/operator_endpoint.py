"""Which API server the operator's options mean, and how it is spoken to."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from pliant.errors import NoCluster, UnsupportedEnvironment, UserError
from pliant.kube.auth.tls import TlsConfig
from pliant.kube.client_config import SERVICE_ACCOUNT_DIR, NowFunction, find_api_server, proxy_from_environment
from pliant.kube.transport.http import ApiServerEndpoint, HttpTransport

_IN_CLUSTER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


def choose_transport(args: Namespace, now: NowFunction) -> HttpTransport:
    """A transport to the server that the options of this process choose."""
    return HttpTransport(choose_endpoint(args, os.environ, now))


def choose_endpoint(args: Namespace, environment: Mapping[str, str], now: NowFunction) -> ApiServerEndpoint:
    """The server of the options, with the credentials of the kubeconfig or the pod, if there are any."""
    try:
        found = _find_endpoint_for(args, environment, now)
    except NoCluster:
        # Whoever names a server needs nothing more, as long as that lets everybody in.
        if not args.server:
            raise
        found = ApiServerEndpoint(url="http://", source="--server")
    return _with_server(found, args.server) if args.server else found


def _find_endpoint_for(args: Namespace, environment: Mapping[str, str], now: NowFunction) -> ApiServerEndpoint:
    if args.run_in_cluster is None:
        return find_api_server(args.kubeconfig, args.context, environment, now)
    if not args.run_in_cluster:
        outside = {name: value for name, value in environment.items() if name not in _IN_CLUSTER_VARIABLES}
        return find_api_server(args.kubeconfig, args.context, outside, now)
    for option, given in (("--kubeconfig", args.kubeconfig), ("--context", args.context)):
        if given:
            raise UserError(f"--run-in-cluster and {option} exclude each other; leave one of them out")
    inside = {name: environment[name] for name in _IN_CLUSTER_VARIABLES if name in environment}
    if _IN_CLUSTER_VARIABLES[0] not in inside or not (SERVICE_ACCOUNT_DIR / "token").is_file():
        raise UnsupportedEnvironment(
            f"--run-in-cluster: this is not a pod with a service account (no {SERVICE_ACCOUNT_DIR / 'token'}); "
            "name a kubeconfig instead"
        )
    return find_api_server(None, None, inside, now)


def _with_server(endpoint: ApiServerEndpoint, server: str) -> ApiServerEndpoint:
    """The same credentials for another server; a bare `host:port` is spoken to as the server they are made for.

    So no credential leaves unencrypted unless somebody asked for that.
    """
    url = server if "://" in server else f"{'https' if endpoint.tls else 'http'}://{server}"
    url = url.rstrip("/")
    is_secure = url.startswith("https")
    own_proxy = endpoint.proxy_url if endpoint.proxy_url != proxy_from_environment(endpoint.url) else None
    return replace(
        endpoint,
        url=url,
        tls=(endpoint.tls or TlsConfig(source="--server")) if is_secure else None,
        proxy_url=own_proxy or proxy_from_environment(url),
    )
