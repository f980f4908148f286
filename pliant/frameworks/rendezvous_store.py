"""The replica that hosts the rendezvous of an elastic PyTorch job, so that the job outlives each of its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pliant.frameworks.role_assignment import nested_mapping
from pliant.frameworks.torch_rendezvous import RendezvousStore
from pliant.model.job import EndPolicy, Port, ReplicaGroup, RestartPolicy, RestartRule, RestartScope

STORE_GROUP = "rendezvous"
_RESOURCES: Mapping[str, Mapping[str, str]] = {
    "requests": {"cpu": "50m", "memory": "384Mi"},
    "limits": {"memory": "2Gi"},
}
# What a container of the store takes over from that of a worker: the image, and what a program needs to find its files.
_CONTAINER_FIELDS = ("image", "imagePullPolicy", "env", "envFrom", "workingDir", "securityContext")
_POD_FIELDS = (
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "securityContext",
    "serviceAccountName",
    "automountServiceAccountToken",
    "priorityClassName",
    "hostNetwork",
    "dnsPolicy",
    "dnsConfig",
    "hostAliases",
    "runtimeClassName",
)


def build_store_group(workers: ReplicaGroup, store: RendezvousStore) -> ReplicaGroup:
    """Return the group that runs the store on the image of the workers, without their devices and volumes."""
    port = Port("store", store.port)
    spec = nested_mapping(workers.template, "spec")
    containers: Sequence[Mapping[str, Any]] = spec.get("containers") or ({},)
    main = next((each for each in containers if each.get("name") in workers.main_containers), containers[0])
    container = {
        "name": STORE_GROUP,
        **{name: main[name] for name in _CONTAINER_FIELDS if name in main},
        "command": list(store.command),
        "resources": _RESOURCES,
        "ports": [{"name": port.name, "containerPort": port.number}],
    }
    template: dict[str, Any] = {
        "spec": {
            **{name: spec[name] for name in _POD_FIELDS if name in spec},
            "containers": [container],
            "terminationGracePeriodSeconds": 5,
        }
    }
    return ReplicaGroup(
        name=STORE_GROUP,
        size=1,
        is_control=True,
        path=workers.path,
        template=template,
        ports=(port,),
        complete_policy=EndPolicy.NONE,
        # Without the store all workers end, and a new one knows nothing of them.
        restart_rule=RestartRule(policy=RestartPolicy.ALWAYS, scope=RestartScope.ALL),
        priority_class=workers.priority_class,
        # A rendezvous that is closed admits no agent, so replacing one worker does not help.
        unusable_markers=("RendezvousClosedError",),
    )
