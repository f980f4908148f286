"""Selects the API server that `pliant operator` connects to."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from pliant.errors import NoCluster, UnsupportedEnvironment, UserError
from pliant.kube.auth.tls import TlsConfig
from pliant.kube.client_config import SERVICE_ACCOUNT_DIR, NowFunction, find_api_server
from pliant.kube.transport.http import ApiServerEndpoint, HttpTransport
from pliant.kube.transport.proxies import proxy_from_environment

_IN_CLUSTER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


def choose_transport(args: Namespace, now: NowFunction) -> HttpTransport:
    return HttpTransport(choose_endpoint(args, os.environ, now))


def choose_endpoint(args: Namespace, environment: Mapping[str, str], now: NowFunction) -> ApiServerEndpoint:
    """Return the API server of the options, with the credentials of the kubeconfig or the service account."""
    try:
        endpoint = _find_endpoint_for(args, environment, now)
    except NoCluster:
        # --server alone is enough if the server accepts anonymous requests.
        if not args.server:
            raise
        endpoint = ApiServerEndpoint(url="http://", source="--server")
    return _with_server(endpoint, args.server) if args.server else endpoint


def _find_endpoint_for(args: Namespace, environment: Mapping[str, str], now: NowFunction) -> ApiServerEndpoint:
    if args.run_in_cluster is None:
        return find_api_server(args.kubeconfig, args.context, environment, now)
    if not args.run_in_cluster:
        outside = {name: value for name, value in environment.items() if name not in _IN_CLUSTER_VARIABLES}
        return find_api_server(args.kubeconfig, args.context, outside, now)
    for option, value in (("--kubeconfig", args.kubeconfig), ("--context", args.context)):
        if value:
            raise UserError(f"--run-in-cluster and {option} are mutually exclusive")
    inside = {name: environment[name] for name in _IN_CLUSTER_VARIABLES if name in environment}
    if _IN_CLUSTER_VARIABLES[0] not in inside or not (SERVICE_ACCOUNT_DIR / "token").is_file():
        raise UnsupportedEnvironment(
            f"--run-in-cluster: this is not a pod with a service account (no {SERVICE_ACCOUNT_DIR / 'token'}); "
            "use --kubeconfig instead"
        )
    return find_api_server(None, None, inside, now)


def _with_server(endpoint: ApiServerEndpoint, server: str) -> ApiServerEndpoint:
    """Return the same credentials for another server; `HOST:PORT` uses the scheme of the original server.

    So credentials are never sent unencrypted unless the user writes http://.
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
