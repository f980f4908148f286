"""Finds the API server and the credentials for it: a kubeconfig, or the pod we run in."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pliant.errors import NoCluster, UserError
from pliant.kube.execlogin import API_VERSIONS, ExecLogin, Plugin
from pliant.kube.http import Endpoint, HttpTransport
from pliant.kube.kubeconfig import Choice, Entry, choose, listed_files
from pliant.kube.login import Certificate, Credential, Fixed, FromFiles, Login, SharedFile, basic, bearer
from pliant.kube.tls import Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME_CONFIG = Path(".kube") / "config"
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

Now = Callable[[], datetime]


def transport_for(kubeconfig: Path | None, context: str | None, now: Now) -> HttpTransport:
    """A transport to the cluster of the arguments, $KUBECONFIG, this pod or ~/.kube/config, in that order."""
    return HttpTransport(find_endpoint(kubeconfig, context, os.environ, now))


def find_endpoint(
    kubeconfig: Path | None, context: str | None, environment: Mapping[str, str], now: Now
) -> Endpoint:
    """Where `transport_for` connects to; raises `UserError` naming every place looked at."""
    if kubeconfig is not None:
        if not kubeconfig.exists():
            raise UserError(f"kubeconfig {kubeconfig}: no such file")
        return _from_choice(choose([kubeconfig], context), environment, now)
    listed = listed_files(environment)
    if found := [path for path in listed if path.exists()]:
        return _from_choice(choose(found, context), environment, now)
    inside = environment.get("KUBERNETES_SERVICE_HOST")
    if inside and not listed and context is None and (SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster(inside, environment.get("KUBERNETES_SERVICE_PORT", "443"))
    home = Path(environment.get("HOME", "/")) / HOME_CONFIG
    if not listed and home.is_file():
        return _from_choice(choose([home], context), environment, now)
    if listed:
        raise UserError(f"$KUBECONFIG names {', '.join(map(str, listed))}: no such file")
    raise NoCluster(
        f"no cluster to talk to: looked at $KUBECONFIG, {home} and {SERVICE_ACCOUNT}. "
        "Name a kubeconfig, or start a cluster of your own with `pliant up`."
    )


def _in_cluster(host: str, port: str) -> Endpoint:
    address = f"[{host}]" if ":" in host else host
    authority = SharedFile(SERVICE_ACCOUNT / "ca.crt", "certificate authority").read()
    namespace = SERVICE_ACCOUNT / "namespace"
    return Endpoint(
        url=f"https://{address}:{port}",
        trust=Trust(authority=authority, said_by=str(SERVICE_ACCOUNT / "ca.crt")),
        login=FromFiles(Credential(), token=SharedFile(SERVICE_ACCOUNT / "token", "token file"), certificate=None),
        namespace=namespace.read_text().strip() if namespace.is_file() else "",
        found_in=str(SERVICE_ACCOUNT),
    )


def _from_choice(choice: Choice, environment: Mapping[str, str], now: Now) -> Endpoint:
    cluster, user = choice.cluster, choice.user
    url = cluster.text("server").rstrip("/")
    if urlsplit(url).scheme not in ("https", "http"):
        raise cluster.problem(f"server must be an http(s) address, got {url!r}")
    proxy = cluster.text("proxy-url") or proxy_for(url)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.problem(f"proxy-url must be an http(s) address, got {proxy!r}")
    trust = Trust(
        authority=cluster.data("certificate-authority"),
        verified=not cluster.flag("insecure-skip-tls-verify"),
        said_by=f"{cluster.file}: {cluster.what} and {user.what}",
    )
    if url.startswith("https"):
        trust.context()  # a bad authority is told at once, not at the first request
    return Endpoint(
        url=url,
        trust=trust if url.startswith("https") else None,
        login=_login(choice, environment, now),
        server_name=cluster.text("tls-server-name") or None,
        proxy=proxy,
        headers=tuple(_impersonation(user)),
        context=choice.name,
        namespace=choice.context.text("namespace"),
        found_in=", ".join(str(file) for file in choice.files),
    )


def _login(choice: Choice, environment: Mapping[str, str], now: Now) -> Login | None:
    user = choice.user
    certificate = _certificate(user)
    authorization = bearer(user.text("token")) if user.text("token") else ""
    if user.text("username") and not authorization:
        authorization = basic(user.text("username"), user.text("password"))
    base = Credential(
        authorization=authorization, certificate=certificate if isinstance(certificate, Certificate) else None
    )
    token = user.path("tokenFile")
    if token is not None or isinstance(certificate, tuple):
        return FromFiles(
            base,
            token=SharedFile(token, "token file") if token else None,
            certificate=certificate if isinstance(certificate, tuple) else None,
        )
    plugin = user.part("exec")
    if plugin is not None and not authorization:
        return ExecLogin(_plugin(plugin, choice.cluster, environment), base, now)
    if base == Credential():
        if user.values.get("auth-provider"):
            raise user.problem(
                "logs in by 'auth-provider', which Kubernetes gave up; use an exec plugin, a token or a "
                "client certificate, e.g. from `kubectl create token`"
            )
        return None
    return Fixed(base)


def _certificate(user: Entry) -> Certificate | tuple[SharedFile, SharedFile] | None:
    """A certificate of the kubeconfig itself, or the files that hold one; both are checked to be there."""
    chain, key = user.data("client-certificate"), user.data("client-key")
    if bool(chain) != bool(key):
        raise user.problem("client-certificate and client-key need each other")
    if not chain:
        return None
    pair = Certificate(chain, key)
    Trust(said_by=f"{user.file}: {user.what}").context(pair)
    files = (user.path("client-certificate"), user.path("client-key"))
    if user.embedded("client-certificate") or user.embedded("client-key") or None in files:
        return pair
    return tuple(SharedFile(file, "client certificate") for file in files if file)  # type: ignore[return-value]


def _plugin(plugin: Entry, cluster: Entry, environment: Mapping[str, str]) -> Plugin:
    command, version = plugin.text("command"), plugin.text("apiVersion")
    if not command:
        raise plugin.problem("command is missing")
    if version not in API_VERSIONS:
        raise plugin.problem(f"apiVersion must be {' or '.join(API_VERSIONS)}, got {version!r}")
    mode = plugin.text("interactiveMode") or ("IfAvailable" if version != API_VERSIONS[0] else "")
    if mode not in INTERACTIVE_MODES:
        raise plugin.problem(f"interactiveMode must be one of {', '.join(INTERACTIVE_MODES)}, got {mode!r}")
    if os.sep in command:
        command = str(plugin.file.absolute().parent / command)
    return Plugin(
        command=command,
        api_version=version,
        arguments=plugin.texts("args"),
        environment={**environment, **dict(_variables(plugin))},
        interactive=mode,
        install_hint=plugin.text("installHint"),
        cluster=_told(cluster) if plugin.flag("provideClusterInfo") else None,
    )


def _variables(plugin: Entry) -> Iterator[tuple[str, str]]:
    for variable in plugin.values.get("env") or []:
        if not isinstance(variable, dict) or not isinstance(variable.get("name"), str):
            raise plugin.problem("env must be a list of {name, value}")
        yield variable["name"], str(variable.get("value") or "")


def _told(cluster: Entry) -> dict[str, Any]:
    """What a plugin is told of the cluster it logs in to."""
    told: dict[str, Any] = {"server": cluster.text("server")}
    for field in ("tls-server-name", "proxy-url"):
        if cluster.text(field):
            told[field] = cluster.text(field)
    if cluster.flag("insecure-skip-tls-verify"):
        told["insecure-skip-tls-verify"] = True
    if authority := cluster.data("certificate-authority"):
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.values.get("extensions") or []:
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told


def _impersonation(user: Entry) -> Iterator[tuple[str, str]]:
    if name := user.text("as"):
        yield "Impersonate-User", name
    if uid := user.text("as-uid"):
        yield "Impersonate-Uid", uid
    for group in user.texts("as-groups"):
        yield "Impersonate-Group", group
    extra = user.part("as-user-extra")
    for key in extra.values if extra else ():
        for value in extra.texts(key) if extra else ():
            yield f"Impersonate-Extra-{key}", value


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; none for this machine itself."""
    address = urlsplit(url)
    host = address.hostname or ""
    is_here = host == "localhost" or host.startswith("127.") or host == "::1"
    return None if is_here or proxy_bypass(host) else getproxies().get(address.scheme)
