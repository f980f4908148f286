"""The revisions of a Deployment: one ReplicaSet for each pod template; pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from pliant.embedded.apiserver.handlers.object_lifecycle import DEPLOYMENT_REVISION_ANNOTATION
from pliant.embedded.controllers.workloads.rollout import (
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    created_at,
    max_surge,
)
from pliant.embedded.controllers.workloads.views import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    Object,
    ReplicaSet,
    controller_reference,
    parse_number,
)

HASH_LABEL = "pod-template-hash"
REVISION_ANNOTATION = DEPLOYMENT_REVISION_ANNOTATION
REVISION_HISTORY_ANNOTATION = "deployment.kubernetes.io/revision-history"
_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10
_MAX_HISTORY_CHARACTERS = 2000
_ANNOTATIONS_NOT_COPIED = frozenset(
    {
        "deprecated.deployment.rollback.to",
        "kubectl.kubernetes.io/last-applied-configuration",
        DESIRED_REPLICAS_ANNOTATION,
        MAX_REPLICAS_ANNOTATION,
        REVISION_ANNOTATION,
        REVISION_HISTORY_ANNOTATION,
    }
)


def hash_template(template: Object, collision_count: int) -> str:
    """Return a hash that is a valid label and part of a name."""
    content = msgspec.json.encode([template, collision_count], order="deterministic")
    number = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, letter = divmod(number, len(_HASH_ALPHABET))
        letters.append(_HASH_ALPHABET[letter])
    return "".join(letters)


def find_new_replica_set(deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest ReplicaSet with the present template."""
    matching = [each for each in replica_sets if is_same_template(deployment.spec.template, each.spec.template)]
    return min(matching, key=created_at, default=None)


def is_same_template(template: Object, other: Object) -> bool:
    """Return whether two templates are equal but for the hash label."""
    return _without_hash(template) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    labels = {label: value for label, value in (metadata.pop("labels", None) or {}).items() if label != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def revision_of(annotations: Mapping[str, str]) -> int:
    return parse_number(annotations.get(REVISION_ANNOTATION, "")) or 0


def next_revision(old: Sequence[ReplicaSet]) -> int:
    return max((revision_of(each.metadata.annotations) for each in old), default=0) + 1


def build_replica_set(deployment: Deployment, size: int, revision: int) -> Object:
    """Return the ReplicaSet of the present template; its name follows from the template."""
    meta, spec = deployment.metadata, deployment.spec
    template_hash = hash_template(spec.template, int(deployment.status.get("collisionCount") or 0))
    template_metadata = spec.template.get("metadata") or {}
    labels = {**(template_metadata.get("labels") or {}), HASH_LABEL: template_hash}
    match_labels = {**(spec.selector.get("matchLabels") or {}), HASH_LABEL: template_hash}
    annotations = {**copied_annotations(deployment), **replica_annotations(deployment)}
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{meta.name}-{template_hash}",
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": {**annotations, REVISION_ANNOTATION: str(revision)},
            "ownerReferences": [controller_reference(DEPLOYMENTS, meta)],
        },
        "spec": {
            "replicas": size,
            **({"minReadySeconds": spec.min_ready_seconds} if spec.min_ready_seconds else {}),
            "selector": {**spec.selector, "matchLabels": match_labels},
            "template": {**spec.template, "metadata": {**template_metadata, "labels": labels}},
        },
    }


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    annotations = deployment.metadata.annotations.items()
    return {name: value for name, value in annotations if name not in _ANNOTATIONS_NOT_COPIED}


def replica_annotations(deployment: Deployment) -> dict[str, str]:
    replicas = deployment.spec.replicas
    return {DESIRED_REPLICAS_ANNOTATION: str(replicas), MAX_REPLICAS_ANNOTATION: str(replicas + max_surge(deployment))}


def synced_annotations(deployment: Deployment, new: ReplicaSet, revision: int) -> dict[str, str]:
    """Return the annotations that an existing ReplicaSet gets when its template is the present one again."""
    known = new.metadata.annotations
    changes = {name: value for name, value in copied_annotations(deployment).items() if known.get(name) != value}
    previous = revision_of(known)
    if previous < revision:
        changes[REVISION_ANNOTATION] = str(revision)
        if previous:
            history = [*filter(None, known.get(REVISION_HISTORY_ANNOTATION, "").split(",")), str(previous)]
            while len(",".join(history)) > _MAX_HISTORY_CHARACTERS:
                history.pop(0)
            changes[REVISION_HISTORY_ANNOTATION] = ",".join(history)
    return changes
