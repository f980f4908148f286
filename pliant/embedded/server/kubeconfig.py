"""The file that lets kubectl in: address, authority and token, readable by its owner alone."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec

from pliant.embedded.server.certs import write_secret

CONTEXT = "pliant"


def write_kubeconfig(path: Path, *, url: str, authority: bytes, token: str, namespace: str = "default") -> None:
    """Write a kubeconfig with everything embedded; JSON is YAML, and needs no library to be right."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}}],
        "preferences": {},
    }
    write_secret(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
