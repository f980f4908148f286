"""The Python environment with client libraries: installed once, and readable by every user."""

from __future__ import annotations

from tests.real_frameworks.environments import Environment

PYTHON_CLIENTS = Environment(
    "python-clients",
    ("kubernetes==37.0.2", "kr8s==0.20.15", "lightkube==1.0.1", "kubernetes_asyncio==36.1.0", "kopf==1.45.2"),
    proof="import kubernetes.stream, kr8s, lightkube, kubernetes_asyncio.stream, kopf",
)

KUBECTL_VERSIONS = ("1.31.14", "1.34.4", "1.36.3", "1.37.1")
"""The versions of kubectl that are tested, oldest first; built once from their Go modules."""
