"""What is wrong with nodes, and whose pods it concerns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from pliant.controllers.node_faults import NodeFaultDetector
from pliant.controllers.observe import CachedJobObjects, observe
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Node, Pod
from pliant.model.observed import NodeFault
from tests.builders import make_job
from tests.virtual_time import ThreeClocks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = NOON - timedelta(minutes=1)


def pod(*devices: str) -> Pod:
    container = {"name": "main", "resources": {"limits": {"cpu": 1, "memory": "1Gi", **dict.fromkeys(devices, 1)}}}
    return msgspec.convert(
        {"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeName": "n", "containers": [container]}}, Pod
    )


def watch(conditions: dict[str, str] | None, *taints: str, clock: ThreeClocks | None = None) -> NodeFaultDetector:
    """A watch that knows one node, or none."""
    store: ObjectStore[Node] = ObjectStore()
    if conditions is not None:
        raw: dict[str, Any] = {
            "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
            "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
            "status": {
                "conditions": [
                    {"type": kind, "status": status, "lastTransitionTime": EARLIER}
                    for kind, status in conditions.items()
                ]
            },
        }
        store.apply_complete_list([msgspec.convert(raw, Node)], 1)
    nodes = NodeFaultDetector(store, clock or ThreeClocks(NOON))
    nodes.is_enabled = True
    return nodes


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_dead_since_it_says_so(status: str) -> None:
    fault = watch({"Ready": status}).fault_for_pod(pod())
    assert fault == NodeFault(description="is not ready", since=EARLIER, is_dead=True)


def test_a_node_that_is_ready_or_says_nothing_is_well() -> None:
    assert watch({"Ready": "True"}).fault_for_pod(pod()) is None
    assert watch({}).fault_for_pod(pod()) is None


def test_a_node_that_is_not_there_is_gone_since_it_was_missed() -> None:
    clock = ThreeClocks(NOON)
    nodes = watch(None, clock=clock)
    assert nodes.fault_for_pod(pod()) == NodeFault(description="is gone", since=NOON)
    clock.advance(30)
    assert nodes.fault_for_pod(pod()) == NodeFault(description="is gone", since=NOON)


@pytest.mark.parametrize("hours", [2, -2, 48, -48])
@pytest.mark.parametrize("conditions", [None, {"Ready": "Unknown"}], ids=["gone", "not ready"])
def test_a_fault_is_as_old_as_before_when_the_clock_jumps(hours: int, conditions: dict[str, str] | None) -> None:
    clock = ThreeClocks(NOON)
    nodes = watch(conditions, clock=clock)
    before = nodes.fault_for_pod(pod())
    assert before is not None
    clock.advance(5)
    clock.jump_wall(timedelta(hours=hours))
    after = nodes.fault_for_pod(pod())
    assert after is not None
    assert after.since - before.since == timedelta(hours=hours)


def test_whoever_may_not_see_nodes_finds_no_fault_with_them() -> None:
    nodes = watch(None)
    nodes.is_enabled = False
    assert nodes.fault_for_pod(pod()) is None


def test_a_node_taken_out_of_service_is_dead() -> None:
    fault = watch({"Ready": "True"}, "node.kubernetes.io/out-of-service").fault_for_pod(pod())
    assert fault is not None
    assert fault.is_dead


DEVICE_FAULTS: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({"Ready": "True", "GPUUnhealthy": "True"}, ()),
    ({"Ready": "True", "GpuHealthy": "False"}, ()),
    ({"Ready": "True", "NvidiaXidError": "True"}, ()),
    ({"Ready": "True"}, ("example.com/gpu-fault",)),
    ({"Ready": "True", "DeviceLost": "True"}, ()),
]


@pytest.mark.parametrize(("conditions", "taints"), DEVICE_FAULTS)
@pytest.mark.parametrize("device", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_a_device_fault_concerns_pods_that_ask_for_the_device(
    conditions: dict[str, str], taints: tuple[str, ...], device: str
) -> None:
    fault = watch(conditions, *taints).fault_for_pod(pod(device))
    assert fault is not None
    assert not fault.is_dead
    assert "device fault" in fault.description


@pytest.mark.parametrize(("conditions", "taints"), DEVICE_FAULTS)
def test_a_device_fault_is_no_concern_of_others(conditions: dict[str, str], taints: tuple[str, ...]) -> None:
    assert watch(conditions, *taints).fault_for_pod(pod()) is None


def test_one_kind_of_device_is_not_another() -> None:
    assert watch({"GPUUnhealthy": "True"}).fault_for_pod(pod("vendor.io/npu")) is None
    assert watch({"NPUFault": "True"}).fault_for_pod(pod("vendor.io/npu")) is not None


@pytest.mark.parametrize(
    ("conditions", "taints"),
    [
        ({"GPUUnhealthy": "False"}, ()),
        ({"GPUHealthy": "True"}, ()),
        ({"GPUHealthy": "Unknown"}, ()),
        ({"Ready": "True"}, ("nvidia.com/gpu",)),
        ({"DiskPressure": "True"}, ()),
    ],
)
def test_a_sound_device_is_no_fault(conditions: dict[str, str], taints: tuple[str, ...]) -> None:
    assert watch(conditions, *taints).fault_for_pod(pod("nvidia.com/gpu")) is None


def test_a_fault_that_comes_back_counts_from_its_return() -> None:
    clock = ThreeClocks(NOON)
    nodes = watch(None, clock=clock)
    nodes.fault_for_pod(pod())
    healthy = watch({"Ready": "True"}, clock=clock)
    nodes._nodes = healthy._nodes
    assert nodes.fault_for_pod(pod()) is None
    nodes._nodes = ObjectStore()
    clock.advance(3600)
    fault = nodes.fault_for_pod(pod())
    assert fault is not None
    assert fault.since == clock.now()


def test_a_fault_that_one_pod_does_not_mind_goes_on_counting_for_another() -> None:
    clock = ThreeClocks(NOON)
    nodes = watch({"Ready": "True"}, "nvidia.com/gpu-unhealthy", clock=clock)
    for _ in range(2):
        fault = nodes.fault_for_pod(pod("nvidia.com/gpu"))
        assert fault is not None
        assert fault.since == NOON
        assert nodes.fault_for_pod(pod()) is None
        clock.advance(5)


GPU = "nvidia.com/gpu"
LATER = EARLIER + timedelta(seconds=20)


def gpu_node(*, offered: int) -> dict[str, Any]:
    """A node with eight GPUs and a fault; it offers so many of them."""
    fault = {"type": "GPUUnhealthy", "status": "True", "lastTransitionTime": EARLIER}
    return {
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
        "status": {"capacity": {GPU: "8"}, "allocatable": {GPU: str(offered)}, "conditions": [fault]},
    }


def gpu_pod(*healths: str, scheduled_at: datetime = EARLIER - timedelta(minutes=1)) -> Pod:
    """A pod with a GPU, which has come to the node at some time; its kubelet may report the health of its GPUs."""
    devices = [{"resourceID": str(number), "health": health} for number, health in enumerate(healths)]
    container: dict[str, Any] = {"name": "main"}
    if devices:
        container["allocatedResourcesStatus"] = [{"name": GPU, "resources": devices}]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled_at}
    raw = msgspec.to_builtins(pod(GPU))
    return msgspec.convert({**raw, "status": {"conditions": [scheduled], "containerStatuses": [container]}}, Pod)


def detector_for(*nodes: dict[str, Any]) -> NodeFaultDetector:
    store: ObjectStore[Node] = ObjectStore()
    known = [msgspec.convert(node, Node) for node in nodes]
    store.apply_complete_list(known, 1)
    faults = NodeFaultDetector(store, ThreeClocks(NOON))
    faults.is_enabled = True
    for node in known:
        faults.on_node_changed(None, node)
    return faults


def test_a_pod_meets_an_old_fault_when_it_comes_to_the_node() -> None:
    fault = detector_for(gpu_node(offered=8)).fault_for_pod(gpu_pod(scheduled_at=LATER))
    assert fault is not None
    assert fault.since == LATER
    dead = watch({"Ready": "Unknown"}).fault_for_pod(gpu_pod(scheduled_at=LATER))
    assert dead is not None
    assert dead.since == LATER


@pytest.mark.parametrize(
    ("offered", "healths", "is_faulty"),
    [
        (7, ("Healthy",), False),
        (7, ("Healthy", "Unhealthy"), True),
        (7, (), True),  # such a kubelet does not report the devices of pods
        (8, ("Healthy",), True),  # the kubelet does not know of the fault
        (8, (), True),
    ],
)
def test_only_the_pod_with_the_bad_device_is_hit_where_the_kubelet_knows_it(
    offered: int, healths: tuple[str, ...], is_faulty: bool
) -> None:
    fault = detector_for(gpu_node(offered=offered)).fault_for_pod(gpu_pod(*healths))
    assert (fault is not None) is is_faulty


def test_a_kubelet_that_withdrew_the_bad_device_gives_good_ones_to_later_pods() -> None:
    assert detector_for(gpu_node(offered=7)).fault_for_pod(gpu_pod(scheduled_at=LATER)) is None
    assert detector_for(gpu_node(offered=8)).fault_for_pod(gpu_pod(scheduled_at=LATER)) is not None


def test_new_pods_with_devices_cannot_use_a_node_whose_bad_device_is_not_known() -> None:
    assert detector_for(gpu_node(offered=8)).list_unusable_nodes(frozenset({GPU})) == ("n",)
    assert detector_for(gpu_node(offered=8)).list_unusable_nodes(frozenset()) == ()
    assert detector_for(gpu_node(offered=8)).list_unusable_nodes(frozenset({"vendor.io/npu"})) == ()
    assert detector_for(gpu_node(offered=7)).list_unusable_nodes(frozenset({GPU})) == ()


def test_pods_that_wait_for_a_node_are_concerned_by_device_faults_alone() -> None:
    faults = detector_for()
    healthy, faulty, withdrawn = (
        msgspec.convert(each, Node) for each in ({"metadata": {"name": "n"}}, gpu_node(offered=8), gpu_node(offered=7))
    )
    assert faults.on_node_changed(None, healthy) == {"n"}
    assert faults.on_node_changed(healthy, healthy) == set()
    assert faults.on_node_changed(healthy, faulty) == {"n", ""}
    assert faults.on_node_changed(faulty, withdrawn) == {"n", ""}
    assert faults.on_node_changed(withdrawn, None) == {"n", ""}
    assert faults.list_unusable_nodes(frozenset({GPU})) == ()


def _node(heartbeat: str, labels: dict[str, str] | None = None, **spec: Any) -> Node:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat, "message": heartbeat}
    meta = {"name": "n", "uid": "n", "resourceVersion": "1", "labels": labels or {}}
    raw = {"metadata": meta, "spec": spec, "status": {"conditions": [condition]}}
    return msgspec.convert(raw, Node)


def test_pods_are_looked_at_again_when_their_node_is_drained_and_not_at_heartbeats() -> None:
    nodes = watch({})
    before, after = _node("2026-01-01T00:00:00Z"), _node("2026-01-01T00:00:10Z")
    assert nodes.on_node_changed(before, after) == set()
    assert nodes.on_node_changed(after, _node("2026-01-01T00:00:20Z", unschedulable=True)) == {"n"}
    evicting = [{"key": "maintenance", "effect": "NoExecute"}]
    assert nodes.on_node_changed(after, _node("2026-01-01T00:00:20Z", taints=evicting)) == {"n"}
    assert nodes.on_node_changed(after, _node("", {"node-lifecycle": "spot"})) == {"n"}
    assert nodes.on_node_changed(after, _node("", {"zone": "a"})) == set()


def test_a_pod_is_observed_with_what_its_node_is_about_to_do() -> None:
    store: ObjectStore[Node] = ObjectStore()
    nodes = NodeFaultDetector(store, ThreeClocks(NOON))
    store.apply_complete_list([_node("", {"node-lifecycle": "spot"}, unschedulable=True)], 1)
    [observed] = observe(make_job(), CachedJobObjects(pods=[pod()]), nodes).pods
    assert (observed.is_node_draining, observed.is_on_spot_node) == (False, False)
    nodes.is_enabled = True
    [observed] = observe(make_job(), CachedJobObjects(pods=[pod()]), nodes).pods
    assert (observed.is_node_draining, observed.is_on_spot_node) == (True, True)
