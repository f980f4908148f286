"""Complete and validate the pod templates of an ElasticJob."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import abbreviate_json
from pliant.frontends.spec.pod_templates import inspect_pod_template

MAIN_CONTAINER = "main"
POD_IP_ENV_ENTRY = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
NODE_IP_ENV_ENTRY = {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
POD_NAME_ENV_ENTRY = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
GANG_KEY_PREFIXES = (
    "scheduling.k8s.io/",
    "scheduling.x-k8s.io/",
    "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/",
    "kueue.x-k8s.io/pod-group",
)
"""Prefixes of the keys that assign pods to a gang. A master is in no gang: it requests the other pods."""
GANG_AND_QUEUE_KEY_PREFIXES = (*GANG_KEY_PREFIXES, "kueue.x-k8s.io/", "volcano.sh/")
"""Prefixes of the keys that assign pods to a gang or a queue."""
PRIORITY_CLASSES = ("high", "low")

PodTemplate = Mapping[str, Any]


def build_pod_template(template: PodTemplate, path: str, annotations: Mapping[str, str]) -> PodTemplate:
    """Return the complete pod template of a replica; raise InvalidSpec for an invalid template.

    The main container is first and has resource requests, because masters read them from the first container.
    """
    inspect_pod_template(template, f"{path}.template", "")
    template = prepare_main_container(template, (POD_IP_ENV_ENTRY, NODE_IP_ENV_ENTRY, POD_NAME_ENV_ENTRY))
    if queue_annotations := filter_by_key_prefix(GANG_AND_QUEUE_KEY_PREFIXES, annotations):
        template = replace_annotations(template, {**queue_annotations, **template_annotations(template)})
    # The master replaces failed pods; the kubelet must not restart their containers.
    return {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}


def is_priority_fraction(priority: str) -> bool:
    """Return whether a priority is the fraction of replicas that get high priority."""
    try:
        return 0 < float(priority) < 1
    except ValueError:
        return False


def check_priority(priority: str, path: str) -> None:
    """Raise InvalidSpec for an invalid priority."""
    if priority and priority not in PRIORITY_CLASSES and not is_priority_fraction(priority):
        problem = f"must be high, low or a fraction between 0 and 1 such as 0.5, got {abbreviate_json(priority)}"
        raise InvalidSpec(f"{path}.priority", f"{problem}; for other classes set priorityClassName in the template")


def prepare_main_container(template: PodTemplate, variables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a valid template with the main container first, with these variables and default requests."""
    first, *others = put_main_container_first(template["spec"]["containers"])
    taken = {each.get("name") for each in first.get("env") or ()}
    # First, so that variables of the template may refer to them.
    env = [*(each for each in variables if each["name"] not in taken), *(first.get("env") or ())]
    containers = [with_default_requests({**first, "env": env}), *others]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def put_main_container_first(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the containers with the main container first."""
    main = next((each for each in containers if each.get("name") == MAIN_CONTAINER), containers[0])
    return [main, *(each for each in containers if each is not main)]


def has_ambiguous_main_container(template: PodTemplate) -> bool:
    """Return whether none of several containers is named as the main container."""
    containers = template["spec"]["containers"]
    return len(containers) > 1 and all(each.get("name") != MAIN_CONTAINER for each in containers)


def with_default_requests(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container with cpu and memory requests; they default to the limits, else to 0."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    defaults = {name: limits.get(name, "0") for name in ("cpu", "memory")}
    requests = {**defaults, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def replace_annotations(template: PodTemplate, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the template with its annotations replaced."""
    return {**template, "metadata": {**(template.get("metadata") or {}), "annotations": dict(annotations)}}


def gang_and_queue_labels(template: PodTemplate, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the gang and queue labels of the job, overridden by those of the template."""
    own = (template.get("metadata") or {}).get("labels") or {}
    return {
        **filter_by_key_prefix(GANG_AND_QUEUE_KEY_PREFIXES, labels),
        **filter_by_key_prefix(GANG_AND_QUEUE_KEY_PREFIXES, own),
    }


def filter_by_key_prefix(prefixes: tuple[str, ...], entries: Mapping[str, str]) -> dict[str, str]:
    """Return the labels or annotations whose keys start with one of the prefixes."""
    return {key: value for key, value in entries.items() if key.startswith(prefixes)}


def template_annotations(template: PodTemplate) -> Mapping[str, str]:
    return (template.get("metadata") or {}).get("annotations") or {}
