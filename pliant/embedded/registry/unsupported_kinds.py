"""The kinds that clients expect on every cluster, and that the embedded cluster does not support.

They can be listed and watched, because kubectl does so: `kubectl apply --prune` fails if one of them is not served. No
object of them exists, and writes are refused with a message that says what to use instead.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.tables import AGE_COLUMN, NAME_COLUMN
from pliant.embedded.schema import Schema

_NO_CONTROLLER: Final = "no controller runs it"
_OTHER_CLUSTER: Final = "a cluster that runs it"


class _Unsupported(NamedTuple):
    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    reason: str
    instead: str


_UNSUPPORTED: Final = (
    _Unsupported(
        "",
        "PersistentVolume",
        "persistentvolumes",
        ("pv",),
        (),
        "each claim gets a directory of this machine",
        "a PersistentVolumeClaim without volumeName, or a cluster with volumes",
    ),
    _Unsupported(
        "",
        "ReplicationController",
        "replicationcontrollers",
        ("rc",),
        ("all",),
        _NO_CONTROLLER,
        f"a Deployment, or {_OTHER_CLUSTER}",
    ),
    _Unsupported(
        "apps", "DaemonSet", "daemonsets", ("ds",), ("all",), _NO_CONTROLLER, f"a Deployment, or {_OTHER_CLUSTER}"
    ),
    _Unsupported(
        "apps", "StatefulSet", "statefulsets", ("sts",), ("all",), _NO_CONTROLLER, f"a Deployment, or {_OTHER_CLUSTER}"
    ),
    _Unsupported("batch", "CronJob", "cronjobs", ("cj",), ("all",), _NO_CONTROLLER, f"a Job, or {_OTHER_CLUSTER}"),
    _Unsupported(
        "networking.k8s.io",
        "Ingress",
        "ingresses",
        ("ing",),
        (),
        "no controller serves it",
        "a Service and `kubectl port-forward`, or a cluster with an ingress controller",
    ),
)


def unsupported_kinds() -> tuple[Kind, ...]:
    return tuple(map(_unsupported_kind, _UNSUPPORTED))


def _unsupported_kind(entry: _Unsupported) -> Kind:
    message = f"{entry.kind} is not supported by the embedded cluster: {entry.reason}; use {entry.instead}"
    schema = {"type": "object", "description": message, "x-kubernetes-preserve-unknown-fields": True}
    return Kind(
        group=entry.group,
        version="v1",
        plural=entry.plural,
        singular=entry.kind.lower(),
        kind=entry.kind,
        namespaced=entry.kind != "PersistentVolume",
        list_kind=f"{entry.kind}List",
        short_names=entry.short_names,
        categories=entry.categories,
        verbs=("get", "list", "watch"),
        schema=Schema(schema, is_builtin=True),
        columns=(NAME_COLUMN, AGE_COLUMN),
        unsupported_message=message,
    )
