"""Finds the API server and its credentials: from a kubeconfig, or from the service account of the pod."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pliant.errors import NoCluster, UserError
from pliant.kube.auth.credentials import (
    ClientCertificate,
    Credential,
    CredentialProvider,
    FileCredentials,
    ReloadingFile,
    StaticCredentials,
    basic_header,
    bearer_header,
)
from pliant.kube.auth.exec_plugin import EXEC_CREDENTIAL_API_VERSIONS, ExecCredentials, ExecPlugin
from pliant.kube.auth.kubeconfig import KubeconfigEntry, SelectedContext, kubeconfig_env_paths, select_context
from pliant.kube.auth.tls import TlsConfig
from pliant.kube.transport.http import ApiServerEndpoint, HttpTransport
from pliant.kube.transport.proxies import proxy_from_environment

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
KUBECONFIG_PATH_IN_HOME = Path(".kube") / "config"
EXEC_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")

NowFunction = Callable[[], datetime]


def create_transport(kubeconfig: Path | None, context: str | None, now: NowFunction) -> HttpTransport:
    """Connect to the cluster of the arguments, $KUBECONFIG, the pod or ~/.kube/config, in this order."""
    return HttpTransport(find_api_server(kubeconfig, context, os.environ, now))


def find_api_server(
    kubeconfig: Path | None, context: str | None, environment: Mapping[str, str], now: NowFunction
) -> ApiServerEndpoint:
    """Return the endpoint for `create_transport`; raise `UserError` that lists all locations if there is none."""
    if kubeconfig is not None:
        if not kubeconfig.exists():
            raise UserError(f"kubeconfig {kubeconfig}: no such file")
        return _endpoint_from_kubeconfig(select_context([kubeconfig], context), environment, now)
    listed = kubeconfig_env_paths(environment)
    if existing := [path for path in listed if path.exists()]:
        return _endpoint_from_kubeconfig(select_context(existing, context), environment, now)
    service_host = environment.get("KUBERNETES_SERVICE_HOST")
    if service_host and not listed and context is None and (SERVICE_ACCOUNT_DIR / "token").is_file():
        return _in_cluster_endpoint(service_host, environment.get("KUBERNETES_SERVICE_PORT", "443"))
    home_kubeconfig = Path(environment.get("HOME", "/")) / KUBECONFIG_PATH_IN_HOME
    if not listed and home_kubeconfig.is_file():
        return _endpoint_from_kubeconfig(select_context([home_kubeconfig], context), environment, now)
    if listed:
        raise UserError(f"$KUBECONFIG names {', '.join(map(str, listed))}: no such file")
    raise NoCluster(
        f"no cluster found: checked $KUBECONFIG, {home_kubeconfig} and {SERVICE_ACCOUNT_DIR}. "
        "Set --kubeconfig, or start an embedded cluster with `pliant up`."
    )


def _in_cluster_endpoint(host: str, port: str) -> ApiServerEndpoint:
    address = f"[{host}]" if ":" in host else host
    authority = ReloadingFile(SERVICE_ACCOUNT_DIR / "ca.crt", "certificate authority").read()
    namespace = SERVICE_ACCOUNT_DIR / "namespace"
    return ApiServerEndpoint(
        url=f"https://{address}:{port}",
        tls=TlsConfig(ca_data=authority, source=str(SERVICE_ACCOUNT_DIR / "ca.crt")),
        credentials=FileCredentials(
            Credential(), token=ReloadingFile(SERVICE_ACCOUNT_DIR / "token", "token file"), certificate=None
        ),
        default_namespace=namespace.read_text().strip() if namespace.is_file() else "",
        source=str(SERVICE_ACCOUNT_DIR),
    )


def _endpoint_from_kubeconfig(
    selected: SelectedContext, environment: Mapping[str, str], now: NowFunction
) -> ApiServerEndpoint:
    cluster, user = selected.cluster, selected.user
    url = cluster.get_text("server").rstrip("/")
    if urlsplit(url).scheme not in ("https", "http"):
        raise cluster.error(f"server must be an http(s) URL, got {url!r}")
    proxy = cluster.get_text("proxy-url") or proxy_from_environment(url)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.error(f"proxy-url must be an http(s) URL, got {proxy!r}")
    tls = TlsConfig(
        ca_data=cluster.get_data_or_file("certificate-authority"),
        verify=not cluster.get_flag("insecure-skip-tls-verify"),
        source=f"{cluster.file}: {cluster.description} and {user.description}",
    )
    if url.startswith("https"):
        tls.build_ssl_context()  # reports an invalid certificate authority now, not at the first request
    return ApiServerEndpoint(
        url=url,
        tls=tls if url.startswith("https") else None,
        credentials=_credential_provider(selected, environment, now),
        tls_server_name=cluster.get_text("tls-server-name") or None,
        proxy_url=proxy,
        headers=tuple(_impersonation_headers(user)),
        context_name=selected.context_name,
        default_namespace=selected.context.get_text("namespace"),
        source=", ".join(str(file) for file in selected.files),
    )


def _credential_provider(
    selected: SelectedContext, environment: Mapping[str, str], now: NowFunction
) -> CredentialProvider | None:
    user = selected.user
    certificate = _client_certificate(user)
    authorization = bearer_header(user.get_text("token")) if user.get_text("token") else ""
    if user.get_text("username") and not authorization:
        authorization = basic_header(user.get_text("username"), user.get_text("password"))
    base = Credential(
        authorization=authorization, certificate=certificate if isinstance(certificate, ClientCertificate) else None
    )
    token = user.get_path("tokenFile")
    if token is not None or isinstance(certificate, tuple):
        return FileCredentials(
            base,
            token=ReloadingFile(token, "token file") if token else None,
            certificate=certificate if isinstance(certificate, tuple) else None,
        )
    plugin = user.get_section("exec")
    if plugin is not None and not authorization:
        return ExecCredentials(_build_exec_plugin(plugin, selected.cluster, environment), base, now)
    if base == Credential():
        if user.values.get("auth-provider"):
            raise user.error(
                "auth-provider is no longer supported by Kubernetes; use an exec plugin, a token or a client "
                "certificate, e.g. from `kubectl create token`"
            )
        return None
    return StaticCredentials(base)


def _client_certificate(user: KubeconfigEntry) -> ClientCertificate | tuple[ReloadingFile, ReloadingFile] | None:
    """Return the inline certificate of a user, or the files that hold it; check that it can be loaded."""
    chain, key = user.get_data_or_file("client-certificate"), user.get_data_or_file("client-key")
    if bool(chain) != bool(key):
        raise user.error("client-certificate and client-key must be set together")
    if not chain:
        return None
    pair = ClientCertificate(chain, key)
    TlsConfig(source=f"{user.file}: {user.description}").build_ssl_context(pair)
    files = (user.get_path("client-certificate"), user.get_path("client-key"))
    if user.get_inline_data("client-certificate") or user.get_inline_data("client-key") or None in files:
        return pair
    return tuple(ReloadingFile(file, "client certificate") for file in files if file)  # type: ignore[return-value]


def _build_exec_plugin(entry: KubeconfigEntry, cluster: KubeconfigEntry, environment: Mapping[str, str]) -> ExecPlugin:
    command, version = entry.get_text("command"), entry.get_text("apiVersion")
    if not command:
        raise entry.error("command is required")
    if version not in EXEC_CREDENTIAL_API_VERSIONS:
        raise entry.error(f"apiVersion must be {' or '.join(EXEC_CREDENTIAL_API_VERSIONS)}, got {version!r}")
    mode = entry.get_text("interactiveMode") or ("IfAvailable" if version != EXEC_CREDENTIAL_API_VERSIONS[0] else "")
    if mode not in EXEC_INTERACTIVE_MODES:
        raise entry.error(f"interactiveMode must be one of {', '.join(EXEC_INTERACTIVE_MODES)}, got {mode!r}")
    if os.sep in command:
        command = str(entry.file.absolute().parent / command)
    return ExecPlugin(
        command=command,
        api_version=version,
        arguments=entry.get_text_list("args"),
        environment={**environment, **dict(_plugin_env_variables(entry))},
        interactive_mode=mode,
        install_hint=entry.get_text("installHint"),
        cluster_info=_cluster_info(cluster) if entry.get_flag("provideClusterInfo") else None,
    )


def _plugin_env_variables(plugin: KubeconfigEntry) -> Iterator[tuple[str, str]]:
    for variable in plugin.values.get("env") or []:
        if not isinstance(variable, dict) or not isinstance(variable.get("name"), str):
            raise plugin.error("env must be a list of {name, value}")
        yield variable["name"], str(variable.get("value") or "")


def _cluster_info(cluster: KubeconfigEntry) -> dict[str, Any]:
    info: dict[str, Any] = {"server": cluster.get_text("server")}
    for field in ("tls-server-name", "proxy-url"):
        if cluster.get_text(field):
            info[field] = cluster.get_text(field)
    if cluster.get_flag("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    if authority := cluster.get_data_or_file("certificate-authority"):
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.values.get("extensions") or []:
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _impersonation_headers(user: KubeconfigEntry) -> Iterator[tuple[str, str]]:
    if name := user.get_text("as"):
        yield "Impersonate-User", name
    if uid := user.get_text("as-uid"):
        yield "Impersonate-Uid", uid
    for group in user.get_text_list("as-groups"):
        yield "Impersonate-Group", group
    extra = user.get_section("as-user-extra")
    for key in extra.values if extra else ():
        for value in extra.get_text_list(key) if extra else ():
            yield f"Impersonate-Extra-{key}", value
