"""What two API servers should answer alike about the kinds that training jobs are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.controlplane.exchange import IN, JOBS, SPACE, TABLE, Exchange, config_map, job, pod, service


def kind_exchanges() -> Iterator[Exchange]:
    """All of them, in order; the namespace is there already."""
    yield from _pods()
    yield from _services()
    yield from _jobs()
    yield from _odd()


def _pods() -> Iterator[Exchange]:
    pods, one = f"{IN}/pods", f"{IN}/pods/p"
    yield Exchange("create a pod", "POST", pods, pod())
    yield Exchange("create a pod of nothing", "POST", pods, pod("n", containers=[]))
    yield Exchange("create a pod of nobody", "POST", pods, pod("n", containers=[{"image": "x"}]))
    twice = [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]
    yield Exchange("create a pod of twins", "POST", pods, pod("n", containers=twice))
    yield Exchange("create a pod with a bad policy", "POST", pods, pod("n", restartPolicy="Perhaps"))
    needs = [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]
    yield Exchange("create a pod that needs more than its limit", "POST", pods, pod("n", containers=needs))
    bad = [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "two"}}}]
    yield Exchange("create a pod with a bad quantity", "POST", pods, pod("n", containers=bad))
    mounts = [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
    yield Exchange("create a pod that mounts nothing", "POST", pods, pod("n", containers=mounts))
    ports = [{"name": "a", "image": "x", "ports": [{"containerPort": 70000}]}]
    yield Exchange("create a pod with a bad port", "POST", pods, pod("n", containers=ports))
    limits = [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]
    yield Exchange("create a pod with limits", "POST", pods, pod("limits", containers=limits))
    for said, affinity in _affinities().items():
        yield Exchange(f"create a pod with {said}", "POST", pods, pod("n", affinity={"nodeAffinity": affinity}))
    yield Exchange("get pods as table", "GET", pods, query={"fieldSelector": "metadata.name=p"}, accept=TABLE)
    yield Exchange("change a pod's image", "PATCH", one, _image("other"), media=STRATEGIC_MERGE_PATCH)
    command = {"spec": {"containers": [{"name": "main", "command": ["false"]}]}}
    yield Exchange("change a pod's command", "PATCH", one, command, media=STRATEGIC_MERGE_PATCH)
    yield Exchange("status through the main door", "PATCH", one, {"status": {"phase": "Running"}}, media=MERGE_PATCH)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"},
    }
    yield Exchange("bind", "POST", f"{one}/binding", binding)
    yield Exchange("bind again", "POST", f"{one}/binding", binding)
    running = {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}}
    yield Exchange("run", "PATCH", f"{one}/status", running, media=MERGE_PATCH)
    yield Exchange("delete a running pod", "DELETE", one)
    yield Exchange("delete a running pod again, sooner", "DELETE", one, {"gracePeriodSeconds": 5})
    yield Exchange("delete a running pod again, later", "DELETE", one, {"gracePeriodSeconds": 50})
    yield Exchange("delete a running pod by force", "DELETE", one, {"gracePeriodSeconds": 0})
    yield Exchange("the pod is gone", "GET", one)
    yield Exchange("delete a pod without a node", "DELETE", f"{pods}/limits")
    yield Exchange("the pod without a node is gone", "GET", f"{pods}/limits")


def _affinities() -> dict[str, dict[str, Any]]:
    """Wishes for nodes, each with another mistake."""
    required, preferred = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))

    def term(key: str, operator: str, *values: str, where: str = "matchExpressions") -> dict[str, Any]:
        return {where: [{"key": key, "operator": operator, "values": list(values)}]}

    terms = {
        "an unknown operator": term("a", "Like", "b"),
        "nothing to be in": term("a", "In"),
        "a value that need not exist": term("a", "Exists", "b"),
        "two bounds": term("a", "Gt", "1", "2"),
        "a field that is none": term("spec.x", "In", "b", where="matchFields"),
        "two names": term("metadata.name", "NotIn", "a", "b", where="matchFields"),
        "a bound for its name": term("metadata.name", "Gt", "1", where="matchFields"),
    }
    wrong = {said: {required: {"nodeSelectorTerms": [each]}} for said, each in terms.items()}
    heavy = {preferred: [{"weight": 101, "preference": term("a", "In", "b")}]}
    light = {preferred: [{"weight": 0, "preference": term("a", "Like")}]}
    none: dict[str, Any] = {required: {"nodeSelectorTerms": []}}
    return {**wrong, "too great a wish": heavy, "too small a wish": light, "no wish at all": none}


def _image(name: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "image": name}]}}


def _services() -> Iterator[Exchange]:
    services, one = f"{IN}/services", f"{IN}/services/s"
    yield Exchange("create a service", "POST", services, service())
    yield Exchange("create a headless service", "POST", services, service("h", clusterIP="None"))
    yield Exchange("create a service without ports", "POST", services, service("n", ports=[]))
    yield Exchange(
        "create a headless service without ports", "POST", services, service("n", clusterIP="None", ports=[])
    )
    yield Exchange("create a service with a bad port", "POST", services, service("n", ports=[{"port": 0}]))
    twins = [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]
    yield Exchange("create a service with twin ports", "POST", services, service("n", ports=twins))
    two = [{"port": 80}, {"port": 81}]
    yield Exchange("create a service with unnamed ports", "POST", services, service("n", ports=two))
    yield Exchange("create a service with a bad name", "POST", services, service("1x"))
    yield Exchange("create a service of a bad type", "POST", services, service("n", type="Best"))
    moved = {"spec": {"clusterIP": "10.96.7.7"}}
    yield Exchange("move a service", "PATCH", one, moved, media=MERGE_PATCH)
    yield Exchange("get a service as table", "GET", f"{services}/h", accept=TABLE)
    yield Exchange("delete a service", "DELETE", one)


def _jobs() -> Iterator[Exchange]:
    one = f"{JOBS}/j"
    yield Exchange("create a job", "POST", JOBS, job())
    yield Exchange("create a bad job", "POST", JOBS, job("n", replicaSpecs={"worker": {"replicas": "two"}}))
    yield Exchange("create a job of a bad policy", "POST", JOBS, job("n", completePolicy="Perhaps"))
    yield Exchange(
        "create a job with an unknown field", "POST", JOBS, job("n", nonsense=1), {"fieldValidation": "Strict"}
    )
    yield Exchange("create a job without a spec", "POST", JOBS, {**job("n"), "spec": None})
    yield Exchange("change a job's size", "PATCH", one, _size(3), media=MERGE_PATCH)
    yield Exchange("change nothing of a job", "PATCH", one, _size(3), media=MERGE_PATCH)
    yield Exchange("label a job", "PATCH", one, {"metadata": {"labels": {"a": "b"}}}, media=MERGE_PATCH)
    phase = {"status": {"phase": "Running"}, "spec": {"completePolicy": "Any"}}
    yield Exchange("status of a job", "PATCH", f"{one}/status", phase, media=MERGE_PATCH)
    yield Exchange(
        "status of a job through the main door", "PATCH", one, {"status": {"phase": "Failed"}}, media=MERGE_PATCH
    )
    yield Exchange("strategic for a job", "PATCH", one, _size(4), media=STRATEGIC_MERGE_PATCH)
    yield Exchange("a job as table", "GET", one, accept=TABLE)
    yield Exchange("jobs as table", "GET", JOBS, accept=TABLE)
    yield Exchange("replace a job without a version", "PUT", one, job())
    yield Exchange("size of a job that states none", "GET", f"{one}/scale")
    resized = {"spec": {"replicas": 3}}
    yield Exchange("resize a job that states no size", "PATCH", f"{one}/scale", resized, media=MERGE_PATCH)
    elastic = {"spec": {"elastic": {"replicas": 2}}}
    yield Exchange("state a size", "PATCH", one, elastic, media=MERGE_PATCH)
    yield Exchange("size of a job", "GET", f"{one}/scale")
    yield Exchange("resize a job", "PATCH", f"{one}/scale", resized, media=MERGE_PATCH)
    yield Exchange("resize below nothing", "PATCH", f"{one}/scale", {"spec": {"replicas": -1}}, media=MERGE_PATCH)
    yield Exchange("delete a job", "DELETE", one)
    yield Exchange("delete a job that is gone", "DELETE", one)


def _size(count: int) -> dict[str, Any]:
    return {"spec": {"replicaSpecs": {"worker": {"replicas": count}}}}


def _odd() -> Iterator[Exchange]:
    apply = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"g": "7"}}
    yield Exchange("apply", "PATCH", f"{IN}/configmaps/m", apply, {"fieldManager": "t"}, APPLY_PATCH)
    yield Exchange("an unknown path", "GET", "/nonsense")
    yield Exchange("an unknown group", "GET", "/apis/none.example.org/v1/things")
    yield Exchange("an unknown version", "GET", "/apis/elasticdeeplearning.ai/v9/aitrainingjobs")
    yield Exchange("an unknown resource", "GET", "/api/v1/nonsenses")
    yield Exchange("an unknown subresource", "GET", f"{IN}/configmaps/m/nonsense")
    yield Exchange("a wrong verb", "PUT", f"{IN}/configmaps", config_map())
    yield Exchange("a wrong verb on an object", "POST", f"{IN}/configmaps/m", config_map())
    yield Exchange("an unknown form", "GET", f"{IN}/configmaps/m", accept="text/html")
    yield Exchange("a group", "GET", "/apis/elasticdeeplearning.ai")
    yield Exchange("resources of a group", "GET", "/apis/elasticdeeplearning.ai/v1")
    yield Exchange("versions", "GET", "/api")
    yield Exchange("health", "GET", "/healthz")
    yield Exchange("delete the default namespace", "DELETE", "/api/v1/namespaces/default")
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": SPACE},
        "reason": "Told",
        "message": "so",
        "type": "Normal",
    }
    yield Exchange("create an event", "POST", f"{IN}/events", event)
    other = {**event, "metadata": {"name": "f"}, "involvedObject": {**event["involvedObject"], "namespace": "other"}}
    yield Exchange("create an event about elsewhere", "POST", f"{IN}/events", other)
    lease: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z"},
    }
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
    yield Exchange("create a lease", "POST", leases, lease)
    bad = {**lease, "metadata": {"name": "b"}, "spec": {"leaseDurationSeconds": 0}}
    yield Exchange("create a bad lease", "POST", leases, bad)
