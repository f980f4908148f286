"""Object metadata that all front ends read: names, owners, and annotations that request the end of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind
from pliant.frontends.spec.decoding import decode
from pliant.model.job import ALL_REPLICAS, EndRequest, JobKey, Naming, Owner, ReplicaGroup
from pliant.model.labels import WORKSPACE_ANNOTATION, format_pod_name, format_service_name, normalize_group_name
from pliant.model.state import EngineState, JobPhase

DEFAULT_CREATION_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The creation time of objects that do not come from an API server."""
_END_PHASES = {
    "failed": JobPhase.FAILED,
    "Failed": JobPhase.FAILED,
    "nodefailed": JobPhase.NODE_FAIL,
    "NodeFail": JobPhase.NODE_FAIL,
    "preempted": JobPhase.PREEMPTED,
    "Preempted": JobPhase.PREEMPTED,
}
END_PHASE_BY_ANNOTATION = {
    f"{prefix}{name}": phase for prefix in ("", "pliant/") for name, phase in _END_PHASES.items()
}
"""Annotations that end an AITrainingJob. Other domains use the same words for their own purposes."""
_FALSE_VALUES = frozenset({"false", "no", "off", "0"})
MAX_END_MESSAGE_CHARS = 300
"""The message is repeated in events and statuses, and an annotation may hold 256 KiB."""
QUEUE_LABEL_PREFIX = "kueue.x-k8s.io/"
MAX_SERVICE_NAME_CHARS = 63
CHECKPOINT_GRACE_ANNOTATION = "pliant/checkpoint-grace"
RENDEZVOUS_STORE_ANNOTATION = "pliant/rendezvous-store"
MEMBERSHIP_FILE_ANNOTATION = "pliant/membership-file"
DISRUPTION_BUDGET_ANNOTATION = "pliant/disruption-budget"
MAX_CHECKPOINT_GRACE_SECONDS = 86_400
SERVICE_PER_REPLICA_ANNOTATION = "pliant/service-per-replica"
_HOST_NAME_FIELDS = frozenset({"hostname", "subdomain", "setHostnameAsFQDN"})
_JOB_NAME_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_GROUP_NAME_PATTERN = re.compile(r"[A-Za-z0-9]([-/A-Za-z0-9]*[A-Za-z0-9])?")


class JobMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """The metadata of a job."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: datetime = DEFAULT_CREATION_TIME
    deletion_timestamp: datetime | None = None

    @property
    def key(self) -> JobKey:
        return JobKey(self.namespace, self.name)


def read_metadata(raw: Mapping[str, Any]) -> JobMetadata:
    """Decode the metadata of a raw object; raise InvalidSpec if it is invalid."""
    return decode(JobMetadata, raw.get("metadata"), "metadata")


def job_fields_from_metadata(
    raw: Mapping[str, Any], metadata: JobMetadata, kind: CustomKind, *, are_pods_queued: bool = False
) -> dict[str, Any]:
    """Return the fields of a Job that follow from the metadata of its object.

    If `are_pods_queued`, labels that put the job into a queue of Kueue are for its pods.
    """
    owner = Owner(
        # List responses omit apiVersion and kind of their items.
        api_version=raw.get("apiVersion") or f"{kind.group}/{kind.version}",
        kind=raw.get("kind") or kind.kind,
        plural=kind.plural,
        name=metadata.name,
        uid=metadata.uid,
    )
    return {
        "key": metadata.key,
        "owner": owner,
        "labels": metadata.labels if are_pods_queued else _without_queue_labels(metadata.labels),
        "checkpoint_grace": _parse_checkpoint_grace(metadata.annotations),
        "has_rendezvous_store": _parse_flag(metadata.annotations, RENDEZVOUS_STORE_ANNOTATION)
        if RENDEZVOUS_STORE_ANNOTATION in metadata.annotations
        else None,
        "has_membership_file": _parse_flag(metadata.annotations, MEMBERSHIP_FILE_ANNOTATION),
        "has_disruption_budget": _parse_flag(metadata.annotations, DISRUPTION_BUDGET_ANNOTATION),
        "workspace": metadata.annotations.get(WORKSPACE_ANNOTATION, ""),
        "created_at": metadata.creation_timestamp,
        "generation": metadata.generation,
        "is_deleting": metadata.deletion_timestamp is not None,
    }


def _parse_checkpoint_grace(annotations: Mapping[str, str]) -> timedelta | None:
    text = annotations.get(CHECKPOINT_GRACE_ANNOTATION)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:7]) <= MAX_CHECKPOINT_GRACE_SECONDS and len(text) <= 5):
        problem = f'must be a number of seconds up to {MAX_CHECKPOINT_GRACE_SECONDS} such as "60", got {text[:40]!r}'
        raise InvalidSpec(f"metadata.annotations.{CHECKPOINT_GRACE_ANNOTATION}", problem)
    return timedelta(seconds=int(text))


def _parse_flag(annotations: Mapping[str, str], name: str) -> bool:
    text = annotations.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidSpec(f"metadata.annotations.{name}", f'must be "true" or "false", got {text[:40]!r}')
    return text == "true"


def _without_queue_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that pods get from their job: Kueue would put the pods into the queue a second time."""
    return {key: value for key, value in labels.items() if not key.startswith(QUEUE_LABEL_PREFIX)}


def is_end_annotation(name: str) -> bool:
    """Return whether an annotation of this name requests the end of a job."""
    return name in END_PHASE_BY_ANNOTATION


def parse_end_request(annotations: Mapping[str, str]) -> EndRequest | None:
    """Return the end that an annotation requests, if any; the value of the annotation is the message."""
    for key in sorted(annotations):
        phase = END_PHASE_BY_ANNOTATION.get(key)
        if phase is not None and annotations[key].strip().lower() not in _FALSE_VALUES:
            message = " ".join(annotations[key].split()) or f"requested by annotation {key}"
            if len(message) > MAX_END_MESSAGE_CHARS:
                message = f"{message[: MAX_END_MESSAGE_CHARS - 1]}…"
            return EndRequest(phase=phase, message=message)
    return None


def with_job_service(
    naming: Naming,
    groups: Iterable[ReplicaGroup],
    metadata: JobMetadata,
    state: EngineState | None,
    own_services: Mapping[str, int],
    *,
    is_default: bool = True,
) -> Naming:
    """Return the naming of a job whose replicas share one service, unless an annotation asks for one service each.

    A job keeps the services that it started with. `own_services` is that of the naming; in groups whose template sets a
    host name, every replica needs a service of its own.
    """
    has_job_service = is_default if (value := _service_per_replica(metadata)) is None else not value
    if state is not None:
        has_job_service = state.has_job_service
    if not has_job_service:
        return naming
    named = [group.name for group in groups if _HOST_NAME_FIELDS & (group.template.get("spec") or {}).keys()]
    owners = {**own_services, **dict.fromkeys(named, ALL_REPLICAS)}
    lower_case = {normalize_group_name(name): count for name, count in owners.items()}
    return replace(naming, job_service="{job}", own_services=lower_case)


def _service_per_replica(metadata: JobMetadata) -> bool | None:
    value = metadata.annotations.get(SERVICE_PER_REPLICA_ANNOTATION)
    if value is None or value in ("true", "false"):
        return None if value is None else value == "true"
    path = f"metadata.annotations.{SERVICE_PER_REPLICA_ANNOTATION}"
    raise InvalidSpec(path, f'must be "true" or "false", got "{value}"')


def check_service_names(
    job_key: JobKey, max_sizes: Mapping[str, int], groups_path: str, naming: Naming | None = None
) -> None:
    """Raise InvalidSpec unless every replica has a valid and unique service name.

    `max_sizes` holds the largest size of each group; `path` is the field that holds the groups.
    """
    naming = naming or Naming()
    if not _JOB_NAME_PATTERN.fullmatch(job_key.name):
        problem = "must start with a letter and contain only lower-case letters, digits and '-'"
        raise InvalidSpec("metadata.name", f'"{job_key.name}" {problem}: service names begin with it')
    group_by_pod_name: dict[str, str] = {}
    for group, size in max_sizes.items():
        if not _GROUP_NAME_PATTERN.fullmatch(group):
            raise InvalidSpec(f"{groups_path}.{group}", "the name of a group may contain only letters, digits and '-'")
        duplicate = group_by_pod_name.setdefault(format_pod_name(naming, job_key, group, 0), group)
        if duplicate != group:
            raise InvalidSpec(f"{groups_path}.{group}", f'its pods would have the same names as those of "{duplicate}"')
        last = format_service_name(naming, format_pod_name(naming, job_key, group, max(size - 1, 0)))
        if len(last) > MAX_SERVICE_NAME_CHARS:
            raise InvalidSpec("metadata.name", service_name_too_long_message(last))


def service_name_too_long_message(service_name: str) -> str:
    """Return the error message for a job name that makes a service name too long."""
    length = len(service_name)
    return f'is too long: the service name "{service_name}" has {length} characters (maximum: {MAX_SERVICE_NAME_CHARS})'
