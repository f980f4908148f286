"""The files with which clients reach the cluster: serving certificate, CA certificate and kubeconfig."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
SERVING_CERT_NAMES = ("localhost", "127.0.0.1", "::1", *_SERVICE_NAMES)
KUBECONFIG_CONTEXT = "pliant"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    ca_certificate: bytes
    cert_path: Path
    key_path: Path

    def create_ssl_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert_path, self.key_path)
        return context


def ensure_serving_certificate(folder: Path, now: datetime, *, extra_names: Sequence[str] = ()) -> ServingCertificate:
    """Return the serving certificate in `folder`; create it if it is absent or lacks a name."""
    names = sorted({*SERVING_CERT_NAMES, *extra_names})
    files = ("ca.crt", "names", "server.crt", "server.key")
    ca_path, names_path, cert_path, key_path = (folder / file for file in files)
    is_complete = all(path.exists() for path in (ca_path, names_path, cert_path, key_path))
    if not is_complete or names_path.read_text().split() != names:
        from pliant.embedded.apiserver.auth.certificate_authority import issue_serving_certificate

        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names_path.unlink(missing_ok=True)  # written last: without it, an incomplete folder is created again
        issued = issue_serving_certificate(names, now)
        ca_path.write_bytes(issued.ca_certificate)
        cert_path.write_bytes(issued.certificate)
        write_private_file(key_path, issued.key)
        names_path.write_text("\n".join(names))
    return ServingCertificate(ca_certificate=ca_path.read_bytes(), cert_path=cert_path, key_path=key_path)


def write_private_file(path: Path, content: bytes) -> None:
    """Write a file atomically, readable only by its owner."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(content)
    temporary.replace(path)


def write_kubeconfig(path: Path, *, url: str, ca_certificate: bytes, token: str, namespace: str = "default") -> None:
    """Write a kubeconfig with embedded credentials, as JSON, which is also YAML."""
    name = KUBECONFIG_CONTEXT
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca_certificate).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "preferences": {},
    }
    write_private_file(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
