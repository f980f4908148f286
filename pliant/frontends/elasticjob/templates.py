"""Pods of an ElasticJob: what every template needs beyond what its author wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.reading import quoted, read
from pliant.frontends.templates import template_facts

MAIN = "main"
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
NODE_IP = {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
POD_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
GANGS = (
    "scheduling.k8s.io/",
    "scheduling.x-k8s.io/",
    "pod-group.scheduling.sigs.k8s.io",
    "gang.scheduling.koordinator.sh/",
    "kueue.x-k8s.io/pod-group",
)
"""How the labels and annotations begin by which schedulers tell gangs; a master is in none: members come by it."""
QUEUES = (*GANGS, "kueue.x-k8s.io/", "volcano.sh/")
"""The same with those that tell of queues."""
_CLASSES = ("high", "low")

Template = Mapping[str, Any]


class _Resources(Struct, frozen=True):
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}


class _Container(Struct, frozen=True):
    resources: _Resources = _Resources()


def member_template(template: Template, path: str, annotations: Mapping[str, str], priority: str) -> Template:
    """The template of a member's pod; raises InvalidSpec for what is no template.

    Its main container comes first, and says what it asks for: masters look at the first one without checks.
    """
    check_template(template, f"{path}.template")
    changed = with_main(template, (POD_IP, NODE_IP, POD_NAME))
    if ours := about(QUEUES, annotations):
        changed = with_annotations(changed, {**ours, **_annotations(changed)})
    classed = {"priorityClassName": priority} if priority in _CLASSES else {}
    # Whoever is to come back comes back as another pod, by the word of the master.
    return {**changed, "spec": {**classed, **changed["spec"], "restartPolicy": "Never"}}


def check_template(template: Template, path: str) -> None:
    """Raise InvalidSpec for what is no template, or asks for what cannot be asked for."""
    template_facts(template, path, "")
    for index, container in enumerate(template["spec"]["containers"]):
        read(_Container, container, f"{path}.spec.containers[{index}]")


def is_share(priority: str) -> bool:
    """Whether a priority says which part of the members goes first."""
    try:
        return 0 < float(priority) < 1
    except ValueError:
        return False


def check_priority(priority: str, path: str) -> None:
    """Raise InvalidSpec for a priority that nobody understands."""
    if priority and priority not in _CLASSES and not is_share(priority):
        problem = f"must be high, low or a share between 0 and 1 such as 0.5, got {quoted(priority)}"
        raise InvalidSpec(
            f"{path}.priority", f"{problem}; for another class write priorityClassName into the template"
        )


def with_main(template: Template, variables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A sound template with its main container first, which gets these variables and says what it asks for."""
    first, *others = main_first(template["spec"]["containers"])
    taken = {each.get("name") for each in first.get("env") or ()}
    # In front, so that the author's own may refer to them.
    env = [*(each for each in variables if each["name"] not in taken), *(first.get("env") or ())]
    containers = [sized({**first, "env": env}), *others]
    return {**template, "spec": {**template["spec"], "containers": containers}}


def main_first(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The containers with the one that counts first."""
    main = next((each for each in containers if each.get("name") == MAIN), containers[0])
    return [main, *(each for each in containers if each is not main)]


def lacks_main(template: Template) -> bool:
    """Whether it takes a guess to tell which of several containers counts."""
    containers = template["spec"]["containers"]
    return len(containers) > 1 and all(each.get("name") != MAIN for each in containers)


def sized(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container that asks for cpu and memory: as much as it may use, or none, if it does not say."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    least = {name: limits.get(name, "0") for name in ("cpu", "memory")}
    requests = {**least, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def with_annotations(template: Template, annotations: Mapping[str, str]) -> dict[str, Any]:
    """A template with these annotations and no others."""
    return {**template, "metadata": {**(template.get("metadata") or {}), "annotations": dict(annotations)}}


def queue_labels(template: Template, labels: Mapping[str, str]) -> dict[str, str]:
    """What a job's labels say of gangs and queues, unless the template knows better."""
    own = (template.get("metadata") or {}).get("labels") or {}
    return {**about(QUEUES, labels), **about(QUEUES, own)}


def about(prefixes: tuple[str, ...], marks: Mapping[str, str]) -> dict[str, str]:
    """Those of some labels or annotations that begin so."""
    return {key: value for key, value in marks.items() if key.startswith(prefixes)}


def _annotations(template: Template) -> Mapping[str, str]:
    return (template.get("metadata") or {}).get("annotations") or {}
