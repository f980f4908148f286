"""Finds the API server and the credentials for it: a kubeconfig, or the pod we run in."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml

from pliant.errors import UserError
from pliant.kube.http import Endpoint, HttpTransport

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOME_CONFIG = Path(".kube") / "config"


def transport_for(kubeconfig: Path | None, context: str | None) -> HttpTransport:
    """A transport to the cluster of the arguments, $KUBECONFIG, this pod or ~/.kube/config, in that order."""
    return HttpTransport(find_endpoint(kubeconfig, context, os.environ))


def find_endpoint(kubeconfig: Path | None, context: str | None, environment: Mapping[str, str]) -> Endpoint:
    """Where `transport_for` connects to; raises `UserError` naming every place looked at."""
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise UserError(f"kubeconfig {kubeconfig}: no such file")
        return _from_files([kubeconfig], context)
    listed = [Path(path) for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]
    if found := [path for path in listed if path.is_file()]:
        return _from_files(found, context)
    inside = environment.get("KUBERNETES_SERVICE_HOST")
    if inside and not listed and context is None and (SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster(inside, environment.get("KUBERNETES_SERVICE_PORT", "443"))
    home = Path(environment.get("HOME", "/")) / HOME_CONFIG
    if not listed and home.is_file():
        return _from_files([home], context)
    looked = ", ".join(str(path) for path in listed) + " (from $KUBECONFIG)" if listed else f"$KUBECONFIG, {home}"
    raise UserError(
        f"no cluster to talk to: looked at {looked} and {SERVICE_ACCOUNT}. "
        "Name a kubeconfig, or start a cluster of your own with `pliant up`."
    )


def _in_cluster(host: str, port: str) -> Endpoint:
    address = f"[{host}]" if ":" in host else host
    return Endpoint(
        url=f"https://{address}:{port}",
        tls=ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt")),
        token=TokenFile(SERVICE_ACCOUNT / "token"),
    )


class TokenFile:
    """A token that somebody else renews in place: read again whenever the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_from: tuple[int, int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        """The token as it stands now."""
        try:
            found = self._path.stat()
            version = (found.st_mtime_ns, found.st_ino, found.st_size)
            if version != self._read_from:
                self._token = self._path.read_text().strip()
                self._read_from = version
        except OSError as problem:
            if not self._token:
                raise UserError(f"token file {self._path}: {problem.strerror}") from problem
        return self._token


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named part of a kubeconfig, and the file that relative paths in it start from."""

    values: Mapping[str, Any]
    file: Path
    what: str

    def text(self, field: str) -> str:
        value = self.values.get(field) or ""
        if not isinstance(value, str):
            raise UserError(f"{self.file}: {self.what}: {field} must be text")
        return value

    def path(self, field: str) -> Path | None:
        return self.file.parent / self.text(field) if self.text(field) else None

    def data(self, field: str) -> bytes:
        """What `<field>-data` holds, or the file that `<field>` names; empty without either."""
        if encoded := self.text(f"{field}-data"):
            try:
                return base64.b64decode(encoded, validate=True)
            except binascii.Error as problem:
                raise UserError(f"{self.file}: {self.what}: {field}-data is not base64") from problem
        path = self.path(field)
        try:
            return path.read_bytes() if path else b""
        except OSError as problem:
            raise UserError(f"{self.file}: {self.what}: {field}: {path}: {problem.strerror}") from problem


def _from_files(files: list[Path], context: str | None) -> Endpoint:
    documents = [(_load(file), file) for file in files]
    chosen = context or next((d["current-context"] for d, _ in documents if d.get("current-context")), None)
    if not chosen:
        raise UserError(f"{files[0]}: no current-context; choose one with --context")
    wanted = _find(documents, "context", str(chosen))
    cluster = _find(documents, "cluster", wanted.text("cluster"))
    user = _find(documents, "user", wanted.text("user")) if wanted.text("user") else _Entry({}, files[0], "user")
    url = cluster.text("server").rstrip("/")
    if urlsplit(url).scheme not in ("https", "http"):
        raise UserError(f"{cluster.file}: {cluster.what}: server must be an http(s) address, got {url!r}")
    return Endpoint(
        url=url,
        tls=_tls(cluster, user) if url.startswith("https") else None,
        token=_token(user),
        server_name=cluster.text("tls-server-name") or None,
        proxy=cluster.text("proxy-url") or _proxy(url),
    )


def _load(file: Path) -> dict[str, Any]:
    try:
        document = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as problem:
        raise UserError(f"kubeconfig {file}: {problem.strerror}") from problem
    except yaml.YAMLError as problem:
        raise UserError(f"kubeconfig {file} is not YAML: {problem}") from problem
    if not isinstance(document, dict):
        raise UserError(f"kubeconfig {file} holds no configuration")
    return document


def _find(documents: list[tuple[dict[str, Any], Path]], kind: str, name: str) -> _Entry:
    for document, file in documents:
        for entry in document.get(f"{kind}s") or []:
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
                return _Entry(entry[kind], file, f"{kind} {name!r}")
    files = ", ".join(str(file) for _, file in documents)
    raise UserError(f"no {kind} named {name!r} in {files}")


def _token(user: _Entry) -> Callable[[], str] | None:
    if path := user.path("tokenFile"):
        return TokenFile(path)
    if token := user.text("token"):
        return lambda: token
    for unsupported in ("exec", "auth-provider", "username"):
        if user.values.get(unsupported) and not user.data("client-certificate"):
            raise UserError(
                f"{user.file}: {user.what} logs in by {unsupported!r}, which Pliant cannot do yet; "
                "use a token or a client certificate, e.g. from `kubectl create token`"
            )
    return None


def _tls(cluster: _Entry, user: _Entry) -> ssl.SSLContext:
    authority = cluster.data("certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
        if cluster.values.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = user.data("client-certificate"), user.data("client-key")
        if certificate:
            with ExitStack() as files:
                context.load_cert_chain(files.enter_context(_file(certificate)), files.enter_context(_file(key)))
    except (ssl.SSLError, UnicodeDecodeError) as problem:
        raise UserError(f"{cluster.file}: {cluster.what} and {user.what}: bad certificate: {problem}") from problem
    return context


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A private file for as long as it takes the TLS library to read it: it takes keys from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def _proxy(url: str) -> str | None:
    address = urlsplit(url)
    host = address.hostname or ""
    is_here = host == "localhost" or host.startswith("127.") or host == "::1"
    return None if is_here or proxy_bypass(host) else getproxies().get(address.scheme)
