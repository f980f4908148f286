"""Generates the manifests that install the operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pliant import __version__
from pliant.cli.input.kinds_option import choose_kinds, format_kinds_option
from pliant.cli.input.operator_options import DEFAULT_LEASE_NAME
from pliant.controllers.rbac.operator_roles import OperatorAccount, operator_role_manifests
from pliant.controllers.rbac.permissions import operator_permissions
from pliant.controllers.rbac.user_roles import user_role_manifests
from pliant.frontends.frontend import Frontend, required_crds

OPERATOR_NAME = "pliant-operator"
OPERATOR_NAMESPACE = "pliant-system"
OPERATOR_LABELS = {"app.kubernetes.io/name": OPERATOR_NAME}
METRICS_PORT = 8080
HEALTH_PORT = 8081
PROGRESS_REPORT_PORT = 8082
OPERATOR_UID = 65532  # must match the user of the image
BUILTIN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
POD_SECURITY_LABELS = {"pod-security.kubernetes.io/enforce": "restricted"}

ManifestDict = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInstallation:
    """The options of an installation."""

    namespace: str = OPERATOR_NAMESPACE
    watched_namespaces: tuple[str, ...] = ()  # empty: all namespaces
    frontends: tuple[Frontend, ...] = field(default_factory=lambda: choose_kinds(()))
    image: str = f"pliant:{__version__}"
    replicas: int = 2

    @property
    def has_own_namespace(self) -> bool:
        """Whether the namespace holds only the operator and is created by the manifests."""
        return self.namespace not in BUILTIN_NAMESPACES and self.namespace not in self.watched_namespaces


def crd_manifests(frontends: Iterable[Frontend] | None = None) -> Iterator[ManifestDict]:
    """Yield the CRDs of some kinds, by default of all."""
    for frontend in choose_kinds(()) if frontends is None else frontends:
        yield from required_crds(frontend)


def operator_namespace_manifests(installation: OperatorInstallation) -> Iterator[ManifestDict]:
    """Yield the Namespace of the operator, which enforces the `restricted` Pod Security level."""
    if installation.has_own_namespace:
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": installation.namespace, "labels": {**OPERATOR_LABELS, **POD_SECURITY_LABELS}},
        }


def operator_deployment_manifests(installation: OperatorInstallation) -> Iterator[ManifestDict]:
    """Yield the ServiceAccount, the roles of the operator and of users, the Service and the Deployment."""
    account = OperatorAccount(namespace=installation.namespace, name=OPERATOR_NAME)
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _operator_metadata(installation)}
    for manifest in operator_role_manifests(
        operator_permissions(DEFAULT_LEASE_NAME, installation.frontends), account, installation.watched_namespaces
    ):
        manifest["metadata"] = {**manifest["metadata"], "labels": dict(OPERATOR_LABELS)}
        yield manifest
    for manifest in user_role_manifests(crd_manifests(installation.frontends), installation.namespace):
        manifest["metadata"]["labels"] |= OPERATOR_LABELS
        yield manifest
    yield _report_service(installation)
    yield _deployment(installation)
    if installation.replicas > 1:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _operator_metadata(installation),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(OPERATOR_LABELS)}},
        }


def _operator_metadata(installation: OperatorInstallation) -> ManifestDict:
    return {"name": OPERATOR_NAME, "namespace": installation.namespace, "labels": dict(OPERATOR_LABELS)}


def _report_service(installation: OperatorInstallation) -> ManifestDict:
    """Return the Service for progress reports.

    Session affinity sends the reports of a pod to one operator, so that only one operator writes about a job.
    """
    spec = {
        "selector": dict(OPERATOR_LABELS),
        "sessionAffinity": "ClientIP",
        "ports": [{"name": "reports", "port": PROGRESS_REPORT_PORT, "targetPort": "reports"}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _operator_metadata(installation), "spec": spec}


def _deployment(installation: OperatorInstallation) -> ManifestDict:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _operator_metadata(installation),
        "spec": {
            "replicas": installation.replicas,
            "selector": {"matchLabels": dict(OPERATOR_LABELS)},
            "template": {"metadata": {"labels": dict(OPERATOR_LABELS)}, "spec": _pod_spec(installation)},
        },
    }


def _pod_spec(installation: OperatorInstallation) -> ManifestDict:
    spread_constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(OPERATOR_LABELS)},
    }
    return {
        "serviceAccountName": OPERATOR_NAME,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": OPERATOR_UID,
            "runAsGroup": OPERATOR_UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread_constraint],
        "containers": [_operator_container(installation)],
    }


def _operator_container(installation: OperatorInstallation) -> ManifestDict:
    namespaces = [f"--namespace={name}" for name in installation.watched_namespaces]
    kinds = format_kinds_option(installation.frontends)
    return {
        "name": "operator",
        "image": installation.image,
        "args": [
            "operator",
            "--leader-elect",
            f"--lease-namespace={installation.namespace}",
            f"--metrics-bind-address=:{METRICS_PORT}",
            f"--health-probe-bind-address=:{HEALTH_PORT}",
            f"--report-bind-address=:{PROGRESS_REPORT_PORT}",
            f"--report-url=http://{OPERATOR_NAME}.{installation.namespace}.svc:{PROGRESS_REPORT_PORT}",
            f"--master-image={installation.image}",
            "--log-format=json",
            *namespaces,
            *([f"--kinds={kinds}"] if kinds else []),
        ],
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "reports", "containerPort": PROGRESS_REPORT_PORT},
        ],
        "livenessProbe": _http_probe("/healthz", 20),
        "readinessProbe": _http_probe("/readyz", 5),
        # No CPU limit: a throttled leader loses its lease.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _http_probe(path: str, period_seconds: int) -> ManifestDict:
    return {"httpGet": {"path": path, "port": "health"}, "periodSeconds": period_seconds, "timeoutSeconds": 5}
