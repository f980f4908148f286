"""All that an operator needs on a cluster, as the objects to apply there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pliant import __version__
from pliant.cli.kinds import choose_kinds, kinds_argument
from pliant.cli.operator_options import LEASE
from pliant.controllers.people import people_manifests
from pliant.controllers.rights import needed_rights
from pliant.controllers.roles import Account, role_manifests
from pliant.frontends.base import Frontend
from pliant.frontends.base import definitions as definitions_of

NAME = "pliant-operator"
LABELS = {"app.kubernetes.io/name": NAME}
METRICS_PORT = 8080
HEALTH_PORT = 8081
REPORT_PORT = 8082
USER = 65532
"""Who the operator is in its container: nobody in particular. The image says the same."""
NOT_OURS = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every cluster has."""
STRICT = {"pod-security.kubernetes.io/enforce": "restricted"}

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where an operator lives, what it watches, and how many there are of it."""

    namespace: str = "pliant-system"
    watched: tuple[str, ...] = ()
    """Namespaces; every one when empty."""
    frontends: tuple[Frontend, ...] = field(default_factory=lambda: choose_kinds(()))
    """The kinds that it runs."""
    image: str = f"pliant:{__version__}"
    replicas: int = 2

    @property
    def has_own_namespace(self) -> bool:
        """Whether the namespace is for the operator alone; others are there already, and stay as they are."""
        return self.namespace not in NOT_OURS and self.namespace not in self.watched


def definitions(frontends: Iterable[Frontend] | None = None) -> Iterator[Manifest]:
    """The definitions of some kinds, or of every kind; to delete one deletes its jobs."""
    for frontend in choose_kinds(()) if frontends is None else frontends:
        yield from definitions_of(frontend)


def place(chosen: Installation) -> Iterator[Manifest]:
    """The namespace, in which only harmless pods may run."""
    if chosen.has_own_namespace:
        yield {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": chosen.namespace, "labels": {**LABELS, **STRICT}},
        }


def operator(chosen: Installation) -> Iterator[Manifest]:
    """The operator itself: its account, its rights and those of people, and what runs it."""
    account = Account(namespace=chosen.namespace, name=NAME)
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(chosen)}
    for manifest in role_manifests(needed_rights(LEASE, chosen.frontends), account, chosen.watched):
        manifest["metadata"] = {**manifest["metadata"], "labels": dict(LABELS)}
        yield manifest
    for manifest in people_manifests(definitions(chosen.frontends), chosen.namespace):
        manifest["metadata"]["labels"] |= LABELS
        yield manifest
    yield _service(chosen)
    yield _deployment(chosen)
    if chosen.replicas > 1:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _meta(chosen),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(LABELS)}},
        }


def _meta(chosen: Installation) -> Manifest:
    return {"name": NAME, "namespace": chosen.namespace, "labels": dict(LABELS)}


def _service(chosen: Installation) -> Manifest:
    """Where members report; whoever reports keeps to one operator, so that one alone writes about a job."""
    spec = {
        "selector": dict(LABELS),
        "sessionAffinity": "ClientIP",
        "ports": [{"name": "reports", "port": REPORT_PORT, "targetPort": "reports"}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(chosen), "spec": spec}


def _deployment(chosen: Installation) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(chosen),
        "spec": {
            "replicas": chosen.replicas,
            "selector": {"matchLabels": dict(LABELS)},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod(chosen)},
        },
    }


def _pod(chosen: Installation) -> Manifest:
    apart = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(LABELS)},
    }
    return {
        "serviceAccountName": NAME,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [apart],
        "containers": [_container(chosen)],
    }


def _container(chosen: Installation) -> Manifest:
    watched = [f"--namespace={name}" for name in chosen.watched]
    words = kinds_argument(chosen.frontends)
    return {
        "name": "operator",
        "image": chosen.image,
        "args": [
            "operator",
            "--leader-elect",
            f"--lease-namespace={chosen.namespace}",
            f"--metrics-bind-address=:{METRICS_PORT}",
            f"--health-probe-bind-address=:{HEALTH_PORT}",
            f"--report-bind-address=:{REPORT_PORT}",
            f"--report-url=http://{NAME}.{chosen.namespace}.svc:{REPORT_PORT}",
            f"--master-image={chosen.image}",
            "--log-format=json",
            *watched,
            *([f"--kinds={words}"] if words else []),
        ],
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "reports", "containerPort": REPORT_PORT},
        ],
        "livenessProbe": _probe("/healthz", 20),
        "readinessProbe": _probe("/readyz", 5),
        # No limit on CPU: a leader that is slowed down loses its lease.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _probe(path: str, period: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "health"}, "periodSeconds": period, "timeoutSeconds": 5}
