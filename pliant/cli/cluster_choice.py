"""Which API server the operator's options mean, and how it is spoken to."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from pliant.errors import NoCluster, NotPossibleHere, UserError
from pliant.kube.config import SERVICE_ACCOUNT, Now, find_endpoint, proxy_for
from pliant.kube.http import Endpoint, HttpTransport
from pliant.kube.tls import Trust

_OF_A_POD = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")


def chosen_transport(args: Namespace, now: Now) -> HttpTransport:
    """A transport to the server that the options of this process choose."""
    return HttpTransport(chosen_endpoint(args, os.environ, now))


def chosen_endpoint(args: Namespace, environment: Mapping[str, str], now: Now) -> Endpoint:
    """The server of the options, with the credentials of the kubeconfig or the pod, if there are any."""
    try:
        found = _found(args, environment, now)
    except NoCluster:
        # Whoever names a server needs nothing more, as long as that lets everybody in.
        if not args.server:
            raise
        found = Endpoint(url="http://", found_in="--server")
    return _moved(found, args.server) if args.server else found


def _found(args: Namespace, environment: Mapping[str, str], now: Now) -> Endpoint:
    if args.run_in_cluster is None:
        return find_endpoint(args.kubeconfig, args.context, environment, now)
    if not args.run_in_cluster:
        outside = {name: value for name, value in environment.items() if name not in _OF_A_POD}
        return find_endpoint(args.kubeconfig, args.context, outside, now)
    for option, given in (("--kubeconfig", args.kubeconfig), ("--context", args.context)):
        if given:
            raise UserError(f"--run-in-cluster and {option} exclude each other; leave one of them out")
    inside = {name: environment[name] for name in _OF_A_POD if name in environment}
    if _OF_A_POD[0] not in inside or not (SERVICE_ACCOUNT / "token").is_file():
        raise NotPossibleHere(
            f"--run-in-cluster: this is not a pod with a service account (no {SERVICE_ACCOUNT / 'token'}); "
            "name a kubeconfig instead"
        )
    return find_endpoint(None, None, inside, now)


def _moved(found: Endpoint, server: str) -> Endpoint:
    """The same credentials for another server; a bare `host:port` is spoken to as the server they are made for.

    So no credential leaves unencrypted unless somebody asked for that.
    """
    url = server if "://" in server else f"{'https' if found.trust else 'http'}://{server}"
    url = url.rstrip("/")
    is_secure = url.startswith("https")
    own_proxy = found.proxy if found.proxy != proxy_for(found.url) else None
    return replace(
        found,
        url=url,
        trust=(found.trust or Trust(said_by="--server")) if is_secure else None,
        proxy=own_proxy or proxy_for(url),
    )
