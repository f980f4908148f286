"""Pods of an ElasticJob: what every template needs beyond what its author wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import decode, quote_json
from pliant.frontends.spec.pod_templates import inspect_pod_template

MAIN_CONTAINER = "main"
POD_IP_VARIABLE = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
NODE_IP_VARIABLE = {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
POD_NAME_VARIABLE = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
GANG_KEY_PREFIXES = (
    "scheduling.k8s.io/",
    "scheduling.x-k8s.io/",
    "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/",
    "kueue.x-k8s.io/pod-group",
)
"""How the labels and annotations begin by which schedulers tell gangs; a master is in none: members come by it."""
QUEUE_KEY_PREFIXES = (*GANG_KEY_PREFIXES, "kueue.x-k8s.io/", "volcano.sh/")
"""The same with those that tell of queues."""
_PRIORITY_CLASSES = ("high", "low")

PodTemplate = Mapping[str, Any]


class _RequestsAndLimits(Struct, frozen=True):
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}


class _ContainerWithResources(Struct, frozen=True):
    resources: _RequestsAndLimits = _RequestsAndLimits()


def build_pod_template(template: PodTemplate, path: str, annotations: Mapping[str, str], priority: str) -> PodTemplate:
    """The template of a member's pod; raises InvalidSpec for what is no template.

    Its main container comes first, and says what it asks for: masters look at the first one without checks.
    """
    check_pod_template(template, f"{path}.template")
    changed = with_main_container(template, (POD_IP_VARIABLE, NODE_IP_VARIABLE, POD_NAME_VARIABLE))
    if ours := filter_by_key_prefix(QUEUE_KEY_PREFIXES, annotations):
        changed = with_annotations(changed, {**ours, **_annotations(changed)})
    classed = {"priorityClassName": priority} if priority in _PRIORITY_CLASSES else {}
    # Whoever is to come back comes back as another pod, by the word of the master.
    return {**changed, "spec": {**classed, **changed["spec"], "restartPolicy": "Never"}}


def check_pod_template(template: PodTemplate, path: str) -> None:
    """Raise InvalidSpec for what is no template, or asks for what cannot be asked for."""
    inspect_pod_template(template, path, "")
    for index, container in enumerate(template["spec"]["containers"]):
        decode(_ContainerWithResources, container, f"{path}.spec.containers[{index}]")


def is_priority_share(priority: str) -> bool:
    """Whether a priority says which part of the members goes first."""
    try:
        return 0 < float(priority) < 1
    except ValueError:
        return False


def check_priority(priority: str, path: str) -> None:
    """Raise InvalidSpec for a priority that nobody understands."""
    if priority and priority not in _PRIORITY_CLASSES and not is_priority_share(priority):
        problem = f"must be high, low or a share between 0 and 1 such as 0.5, got {quote_json(priority)}"
        raise InvalidSpec(f"{path}.priority", f"{problem}; for another class write priorityClassName into the template")


def with_main_container(template: PodTemplate, variables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A sound template with its main container first, which gets these variables and says what it asks for."""
    first, *others = put_main_container_first(template["spec"]["containers"])
    taken = {each.get("name") for each in first.get("env") or ()}
    # In front, so that the author's own may refer to them.
    env = [*(each for each in variables if each["name"] not in taken), *(first.get("env") or ())]
    containers = [with_default_requests({**first, "env": env}), *others]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def put_main_container_first(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The containers with the one that counts first."""
    main = next((each for each in containers if each.get("name") == MAIN_CONTAINER), containers[0])
    return [main, *(each for each in containers if each is not main)]


def lacks_main_container(template: PodTemplate) -> bool:
    """Whether it takes a guess to tell which of several containers counts."""
    containers = template["spec"]["containers"]
    return len(containers) > 1 and all(each.get("name") != MAIN_CONTAINER for each in containers)


def with_default_requests(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container that asks for cpu and memory: as much as it may use, or none, if it does not say."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    least = {name: limits.get(name, "0") for name in ("cpu", "memory")}
    requests = {**least, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def with_annotations(template: PodTemplate, annotations: Mapping[str, str]) -> dict[str, Any]:
    """A template with these annotations and no others."""
    return {**template, "metadata": {**(template.get("metadata") or {}), "annotations": dict(annotations)}}


def queue_labels(template: PodTemplate, labels: Mapping[str, str]) -> dict[str, str]:
    """What a job's labels say of gangs and queues, unless the template knows better."""
    own = (template.get("metadata") or {}).get("labels") or {}
    return {**filter_by_key_prefix(QUEUE_KEY_PREFIXES, labels), **filter_by_key_prefix(QUEUE_KEY_PREFIXES, own)}


def filter_by_key_prefix(prefixes: tuple[str, ...], entries: Mapping[str, str]) -> dict[str, str]:
    """Those of some labels or annotations that begin so."""
    return {key: value for key, value in entries.items() if key.startswith(prefixes)}


def _annotations(template: PodTemplate) -> Mapping[str, str]:
    return (template.get("metadata") or {}).get("annotations") or {}
