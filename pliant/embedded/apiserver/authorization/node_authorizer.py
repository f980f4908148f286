"""The rights of nodes: a kubelet sees its own node and pods, and what these pods refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pliant.embedded.apiserver.authorization.attributes import RequestAttributes, selected_value
from pliant.embedded.apiserver.authorization.default_roles import NODE_RULES
from pliant.embedded.apiserver.authorization.rules import RuleSet
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import ObjectChange, ObjectKey, StoredObject

_PODS_KEY = "/pods"
_READ_VERBS = ("get", "list", "watch")
_VOLUME_REFERENCES = (
    ("secret", "secretName", "secrets"),
    ("configMap", "name", "configmaps"),
    ("persistentVolumeClaim", "claimName", "persistentvolumeclaims"),
)
_ENV_REFERENCES = (
    ("secretRef", "secrets"),
    ("configMapRef", "configmaps"),
    ("secretKeyRef", "secrets"),
    ("configMapKeyRef", "configmaps"),
)
Reference = tuple[str, str, str]
"""Resource, namespace and name of an object that a pod refers to."""


class NodeAuthorizer:
    """Follows the bound pods; each pod is decoded once, when it is bound."""

    def __init__(self, index: ObjectIndex) -> None:
        self._index = index
        self._rules = RuleSet(NODE_RULES)
        self._references_of_pod: dict[ObjectKey, tuple[str, tuple[Reference, ...]]] = {}
        """The node of each bound pod, and what the pod refers to."""
        self._users: dict[tuple[str, Reference], int] = {}
        """The number of pods of a node that refer to an object."""

    def load(self, index: ObjectIndex) -> None:
        for pod in index.list_objects(_PODS_KEY):
            self._add_pod(pod)

    def on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            record = change.after
            if record.key.resource != _PODS_KEY:
                continue
            if change.is_deleted:
                self._remove_pod(record.key)
            elif change.before is None or change.before.indexed_values[0] != record.indexed_values[0]:
                self._remove_pod(record.key)
                self._add_pod(record)

    def decide(self, node: str, attributes: RequestAttributes) -> str | None:
        """Return None if a node may send a request, otherwise the reason why not, which may be empty."""
        if not node:
            return f'unknown node for user "{attributes.user["username"]}"'
        if attributes.group == "" and attributes.resource:
            match attributes.resource:
                case "pods":
                    return self._decide_pod(node, attributes)
                case "nodes":
                    return _decide_node(node, attributes)
                # Nodes of Kubernetes only get claims; the kubelet of this cluster also watches them.
                case "secrets" | "configmaps" | "persistentvolumeclaims":
                    return self._decide_read(node, attributes)
                case "serviceaccounts":
                    return self._decide_token(node, attributes)
        return None if self._rules.allows(attributes) else ""

    def _decide_read(self, node: str, attributes: RequestAttributes) -> str | None:
        if attributes.verb not in _READ_VERBS:
            return "can only read resources of this type"
        if attributes.subresource:
            return "cannot read subresource"
        if not attributes.namespace:
            return "can only read namespaced object of this type"
        return self._decide_reference(node, attributes)

    def _decide_token(self, node: str, attributes: RequestAttributes) -> str | None:
        if attributes.verb != "create" or not attributes.name:
            return "can only create tokens for individual service accounts"
        if attributes.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return self._decide_reference(node, attributes)

    def _decide_pod(self, node: str, attributes: RequestAttributes) -> str | None:
        match attributes.subresource, attributes.verb:
            case "", "get":
                return self._decide_reference(node, attributes)
            case "", "list" | "watch":
                if selected_value(attributes.field_selector, "spec.nodeName") == node:
                    return None
                if attributes.name:
                    return self._decide_reference(node, attributes)
                return "can only list/watch pods with spec.nodeName field selector"
            case "", "delete":
                return self._decide_pod_write(node, attributes, "delete pods")
            case "status", "update" | "patch":
                return self._decide_pod_write(node, attributes, "update pod status for pods")
            case "eviction", "create":
                return self._decide_pod_write(node, attributes, "evict pods")
        return ""

    def _decide_pod_write(self, node: str, attributes: RequestAttributes, action: str) -> str | None:
        pod = self._index.get(ObjectKey(_PODS_KEY, attributes.namespace, attributes.name))
        if pod is None or pod.indexed_values[0] == node:
            return None  # The handler reports a missing pod.
        return f'node "{node}" can only {action} with spec.nodeName set to itself'

    def _decide_reference(self, node: str, attributes: RequestAttributes) -> str | None:
        if not attributes.name:
            return "No Object name found"
        reference = (attributes.resource, attributes.namespace, attributes.name)
        if (node, reference) in self._users:
            return None
        return f"no relationship found between node '{node}' and this object"

    def _add_pod(self, record: StoredObject) -> None:
        node = record.indexed_values[0]
        if not node:
            return
        pod_reference = ("pods", record.key.namespace, record.key.name)
        references = tuple({pod_reference, *_referenced_objects(record.decode())})
        self._references_of_pod[record.key] = (node, references)
        for reference in references:
            self._users[node, reference] = self._users.get((node, reference), 0) + 1

    def _remove_pod(self, key: ObjectKey) -> None:
        node, references = self._references_of_pod.pop(key, ("", ()))
        for reference in references:
            self._users[node, reference] -= 1
            if not self._users[node, reference]:
                del self._users[node, reference]


def _decide_node(node: str, attributes: RequestAttributes) -> str | None:
    match attributes.subresource, attributes.verb:
        case "", "create":
            return None
        case "" | "status", "update" | "patch":
            is_own = attributes.name == node
            return None if is_own else f'node "{node}" is not allowed to modify node "{attributes.name}"'
        case "", "get" | "list" | "watch":
            if attributes.name == node:
                return None
            other = f"'{attributes.name}'" if attributes.name else "all nodes"
            return f"node '{node}' cannot read {other}, only its own Node object"
    return ""


def _referenced_objects(pod: Mapping[str, Any]) -> Iterator[Reference]:
    namespace, spec = pod["metadata"]["namespace"], pod.get("spec") or {}
    if account := spec.get("serviceAccountName"):
        yield "serviceaccounts", namespace, account
    for secret in spec.get("imagePullSecrets") or ():
        if name := secret.get("name"):
            yield "secrets", namespace, name
    for resource, name in (*_volume_references(spec), *_env_references(spec)):
        yield resource, namespace, name


def _volume_references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes") or ():
        projections = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *projections):
            for field, name_field, resource in _VOLUME_REFERENCES:
                reference = source.get(field) or {}
                # A projection has `name` where the volume of a secret has `secretName`.
                if name := reference.get(name_field) or reference.get("name"):
                    yield resource, name


def _env_references(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for container in containers:
        from_variables = (variable.get("valueFrom") or {} for variable in container.get("env") or ())
        for source in (*(container.get("envFrom") or ()), *from_variables):
            for field, resource in _ENV_REFERENCES:
                if name := (source.get(field) or {}).get("name"):
                    yield resource, name
