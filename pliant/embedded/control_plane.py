"""Runs the control plane of an embedded cluster: scheduler, controllers, and the kubelet of its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from pliant.embedded.agent_supervisor import AgentSupervisor
from pliant.embedded.apiserver.auth.users import SCHEDULER_USER
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.controllers.disruption_budgets import DisruptionBudgetController, DisruptionBudgetView
from pliant.embedded.controllers.endpoint_slices import EndpointSliceController, KubernetesServiceController
from pliant.embedded.controllers.gpu_health import GpuHealthController
from pliant.embedded.controllers.node_lifecycle import NodeLifecycleController, replace_registered_nodes
from pliant.embedded.controllers.pod_gc import PodGarbageCollector
from pliant.embedded.controllers.taints import NodeConditionTaintController, TaintEvictionController
from pliant.embedded.controllers.volume_claims import VolumeClaimController, VolumeClaimView
from pliant.embedded.controllers.workloads.manager import WorkloadManager
from pliant.embedded.kubelet.environment.config_objects import ConfigMetadataView
from pliant.embedded.kubelet.environment.variables import CONFIG_MAP_KIND, SECRET_KIND
from pliant.embedded.kubelet.kubelet import Kubelet
from pliant.embedded.kubelet.pods.context import KubeletDependencies
from pliant.embedded.kubelet.pods.event_recorder import PodEventRecorder
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.object_views import PodView, ServiceView
from pliant.embedded.scheduler.pod_groups import POD_GROUP_RESOURCES, pod_group_informer
from pliant.embedded.scheduler.scheduler import DEFAULT_SCHEDULER_NAME, Scheduler
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import (
    CONFIG_MAPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
)

T = TypeVar("T")


class BackgroundTask(Protocol):
    async def run(self) -> None: ...


@asynccontextmanager
async def run_control_plane(
    nodes: Mapping[str, dict[str, str]],
    dependencies: KubeletDependencies,
    api: ApiServer,
    service_index: ServiceIndex,
    supervisor: AgentSupervisor,
    kubernetes_service: KubernetesServiceController,
) -> AsyncIterator[Kubelet]:
    """Register the nodes, then run the scheduler, the controllers and the kubelet."""
    client, clock, agent = dependencies.client, dependencies.clock, dependencies.agent
    annotations = dependencies.filesystem.node_annotations
    await replace_registered_nodes(client, nodes, agent.gateway_address, clock.now(), annotations)
    scheduler_client = KubeClient(InProcessTransport(api, SCHEDULER_USER))
    scheduler = Scheduler(scheduler_client, clock, PodEventRecorder(scheduler_client, clock, DEFAULT_SCHEDULER_NAME))
    kubelet = Kubelet(dependencies, nodes)
    taints, evictions = NodeConditionTaintController(client, clock), TaintEvictionController(client, clock)
    pod_gc, slices = PodGarbageCollector(client, clock), EndpointSliceController(client, service_index)
    budgets = DisruptionBudgetController(client, clock)
    claims = VolumeClaimController(client, clock, dependencies.filesystem)
    pod_handlers = (service_index, slices, kubelet, scheduler, evictions, pod_gc, budgets, claims)
    gpu_health = GpuHealthController(client, clock, dependencies.gpus)
    gpu_health.on_faults_changed = kubelet.publish_changed_statuses
    pods = Informer(client, PODS, PodView, on_change=_combine_handlers(*(each.on_pod_change for each in pod_handlers)))
    node_lifecycle = NodeLifecycleController(dependencies, kubelet, nodes, pods.store.all)
    if (credentials := dependencies.filesystem.credentials) is not None:
        node_lifecycle.on_heartbeat = credentials.renew_after_clock_jump
    agent.on_lost, supervisor.on_restarted = node_lifecycle.on_agent_lost, node_lifecycle.on_agent_restarted
    service_handlers = (service_index, slices, kubernetes_service)
    node_handlers = (scheduler, taints, evictions, pod_gc, gpu_health, node_lifecycle)
    config_watch = dependencies.config_watch
    retained_logs = (dependencies.retained_logs,) if dependencies.retained_logs is not None else ()
    informers: tuple[Informer[Any], ...] = (
        pods,
        Informer(
            client, SERVICES, ServiceView, on_change=_combine_handlers(*(x.on_service_change for x in service_handlers))
        ),
        Informer(client, PERSISTENT_VOLUME_CLAIMS, VolumeClaimView, on_change=claims.on_claim_change),
        Informer(client, POD_DISRUPTION_BUDGETS, DisruptionBudgetView, on_change=budgets.on_budget_change),
        Informer(client, CONFIG_MAPS, ConfigMetadataView, on_change=config_watch.change_handler(CONFIG_MAP_KIND)),
        Informer(client, SECRETS, ConfigMetadataView, on_change=config_watch.change_handler(SECRET_KIND)),
        Informer(client, NODES, Node, on_change=_combine_handlers(*(each.on_node_change for each in node_handlers))),
        *(pod_group_informer(each, scheduler_client, scheduler.pod_groups) for each in POD_GROUP_RESOURCES),
    )
    controllers: tuple[BackgroundTask, ...] = (
        *(kubelet, supervisor, slices, budgets, kubernetes_service, claims, scheduler.pod_groups, *retained_logs),
        WorkloadManager(client, clock, api.store),
        *node_handlers,
        *informers,
    )
    async with _run_in_background(each.run() for each in controllers):
        for informer in informers:
            await informer.wait_synced()
        dependencies.services_synced.set()
        dependencies.filesystem.remove_unknown_pod_files({pod.metadata.uid for pod in pods.store.all()})
        yield kubelet


@asynccontextmanager
async def _run_in_background(tasks_to_run: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run tasks until the block ends; a task that fails ends the block."""
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(task) for task in tasks_to_run]
            try:
                yield
            finally:
                for each in running:
                    each.cancel()
    except BaseExceptionGroup as group:
        # An error of the caller's block is raised as it is, not as a group of one.
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from None


def _combine_handlers(*handlers: Callable[[T | None, T | None], None]) -> Callable[[T | None, T | None], None]:
    def handle(old: T | None, new: T | None) -> None:
        for handler in handlers:
            handler(old, new)

    return handle
