"""Exchanges with an API server that two servers should answer alike, as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pliant.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request

SPACE = "twin"
_IN = f"/api/v1/namespaces/{SPACE}"
JOBS = f"/apis/elasticdeeplearning.ai/v1/namespaces/{SPACE}/aitrainingjobs"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Exchange:
    """One request, and what it is about; `{version}` in it is the resource version that was last answered."""

    title: str
    method: str
    path: str
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    media: str = JSON
    accept: str = JSON

    def request(self, version: str) -> Request:
        """What is sent."""
        body = (
            b""
            if self.body is None
            else self.body
            if isinstance(self.body, bytes)
            else _encoded(self.body, version)
        )
        query = {name: value.replace("{version}", version) for name, value in self.query.items()}
        return Request(
            method=self.method, path=self.path, query=query, body=body, content_type=self.media, accept=self.accept
        )


def _encoded(body: Any, version: str) -> bytes:
    return json.dumps(body).replace("{version}", version).encode()


def config_map(name: str = "m", **metadata: Any) -> dict[str, Any]:
    """A small object."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1", "b": "2"},
    }


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A small pod."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"automountServiceAccountToken": False, "containers": [container], **spec},
    }


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    """A small service."""
    usual = {"selector": {"app": "p"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {**usual, **spec}}


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    """A small training job."""
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "command": ["true"]}]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"worker": {"replicas": 2, "template": template}}, **spec},
    }


def exchanges() -> Iterator[Exchange]:
    """All of them, in order."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    yield Exchange("make a namespace", "POST", "/api/v1/namespaces", namespace)
    yield from _plain()
    yield from _patches()
    yield from _lists()
    yield from _watches()
    yield from _deletions()
    yield from _pods()
    yield from _services()
    yield from _jobs()
    yield from _odd()


def _plain() -> Iterator[Exchange]:
    maps, one = f"{_IN}/configmaps", f"{_IN}/configmaps/m"
    yield Exchange("create", "POST", maps, config_map())
    yield Exchange("create what exists", "POST", maps, config_map())
    yield Exchange("create by prefix", "POST", maps, {**config_map(), "metadata": {"generateName": "x-"}})
    yield Exchange("create without a name", "POST", maps, {**config_map(), "metadata": {}})
    yield Exchange("create with a bad name", "POST", maps, config_map("Bad_Name"))
    yield Exchange("create with bad labels", "POST", maps, config_map("n", labels={"a b": "c d"}))
    yield Exchange("create elsewhere", "POST", maps, config_map("n", namespace="other"))
    yield Exchange("create in no namespace", "POST", "/api/v1/namespaces/none/configmaps", config_map("n"))
    yield Exchange("create another kind", "POST", maps, {**config_map("n"), "kind": "Secret"})
    yield Exchange("create with a version", "POST", maps, config_map("n", resourceVersion="7"))
    yield Exchange("create from nonsense", "POST", maps, b"{nonsense")
    yield Exchange("create from a list", "POST", maps, [])
    yield Exchange("create with a wrong type", "POST", maps, {**config_map("n"), "data": {"a": 1}})
    unknown = {**config_map("n"), "dta": {}}
    yield Exchange("unknown field, strict", "POST", maps, unknown, {"fieldValidation": "Strict"})
    yield Exchange("unknown field, ignored", "POST", maps, unknown, {"fieldValidation": "Ignore", "dryRun": "All"})
    yield Exchange("bad field validation", "POST", maps, config_map("n"), {"fieldValidation": "Sometimes"})
    yield Exchange("bad dry run", "POST", maps, config_map("n"), {"dryRun": "Some"})
    yield Exchange("bad form", "POST", maps, b"a: 1", media="text/plain")
    yield Exchange("get", "GET", one)
    yield Exchange("get as table", "GET", one, accept=_TABLE)
    yield Exchange("get as metadata", "GET", one, accept=_PARTIAL)
    yield Exchange("get nothing", "GET", f"{maps}/none")
    yield Exchange("replace", "PUT", one, {**config_map(), "data": {"c": "3"}})
    yield Exchange("replace at this version", "PUT", one, config_map(resourceVersion="{version}"))
    yield Exchange("replace at an old version", "PUT", one, config_map(resourceVersion="1"))
    yield Exchange("replace by another name", "PUT", one, config_map("other"))
    yield Exchange("replace nothing", "PUT", f"{maps}/none", config_map("none"))
    yield Exchange("replace another's uid", "PUT", one, config_map(uid="1234"))


def _patches() -> Iterator[Exchange]:
    one = f"{_IN}/configmaps/m"
    yield Exchange("merge", "PATCH", one, {"data": {"d": "4", "a": None}}, media=MERGE_PATCH)
    yield Exchange("merge nothing", "PATCH", one, {}, media=MERGE_PATCH)
    yield Exchange("merge a name", "PATCH", one, {"metadata": {"name": "z"}}, media=MERGE_PATCH)
    yield Exchange("merge an old version", "PATCH", one, {"metadata": {"resourceVersion": "1"}}, media=MERGE_PATCH)
    yield Exchange("merge another's uid", "PATCH", one, {"metadata": {"uid": "1234"}}, media=MERGE_PATCH)
    yield Exchange("merge a wrong type", "PATCH", one, {"data": [1]}, media=MERGE_PATCH)
    yield Exchange("merge a list", "PATCH", one, [1], media=MERGE_PATCH)
    yield Exchange("merge into nothing", "PATCH", f"{_IN}/configmaps/none", {"data": {}}, media=MERGE_PATCH)
    strict = {"fieldValidation": "Strict"}
    yield Exchange("merge an unknown field", "PATCH", one, {"dta": {}}, strict, media=MERGE_PATCH)
    steps = [{"op": "test", "path": "/data/d", "value": "4"}, {"op": "add", "path": "/data/e", "value": "5"}]
    yield Exchange("steps", "PATCH", one, steps, media=JSON_PATCH)
    yield Exchange("steps that fail", "PATCH", one, [{**steps[0], "value": "0"}], media=JSON_PATCH)
    yield Exchange("steps to nowhere", "PATCH", one, [{"op": "remove", "path": "/x/y"}], media=JSON_PATCH)
    yield Exchange("steps of nonsense", "PATCH", one, {"op": "add"}, media=JSON_PATCH)
    yield Exchange("strategic", "PATCH", one, {"data": {"f": "6"}}, media=STRATEGIC_PATCH)
    yield Exchange("an unknown patch", "PATCH", one, {}, media="application/nonsense")


def _lists() -> Iterator[Exchange]:
    maps = f"{_IN}/configmaps"
    for name in ("l1", "l2", "l3"):
        yield Exchange(f"create {name}", "POST", maps, config_map(name, labels={"n": name, "all": "yes"}))
    for title, query in {
        "all": {"fieldSelector": "metadata.name!=kube-root-ca.crt"},
        "by label": {"labelSelector": "all=yes"},
        "by labels": {"labelSelector": "n in (l1,l2),all"},
        "by absence": {"labelSelector": "!all", "fieldSelector": "metadata.name!=kube-root-ca.crt"},
        "by bad label": {"labelSelector": "a=="},
        "by name": {"fieldSelector": "metadata.name=l1"},
        "by not name": {"fieldSelector": "metadata.name!=l1", "labelSelector": "all"},
        "by bad field": {"fieldSelector": "data.a=1"},
        "by nonsense field": {"fieldSelector": "nonsense"},
        "a page": {"limit": "2", "labelSelector": "all"},
        "a bad page": {"limit": "x"},
        "a bad rest": {"continue": "nonsense"},
        "a bad version": {"resourceVersion": "x"},
        "version 0": {"resourceVersion": "0", "labelSelector": "all"},
        "a match without a version": {"resourceVersionMatch": "Exact"},
        "exactly now": {"resourceVersionMatch": "Exact", "resourceVersion": "{version}", "labelSelector": "all"},
        "bad match": {"resourceVersionMatch": "Sometimes", "resourceVersion": "1"},
    }.items():
        yield Exchange(f"list {title}", "GET", maps, query=query)
    yield Exchange("list as table", "GET", maps, query={"labelSelector": "all"}, accept=_TABLE)
    yield Exchange("list nowhere", "GET", "/api/v1/namespaces/none/configmaps")
    yield Exchange("list everywhere", "GET", "/api/v1/configmaps", query={"labelSelector": "all"})


def _watches() -> Iterator[Exchange]:
    maps = f"{_IN}/configmaps"
    for title, query in {
        "from now": {"resourceVersion": "{version}"},
        "from 0": {"resourceVersion": "0", "labelSelector": "all"},
        "from nowhere": {"labelSelector": "all"},
        "from nonsense": {"resourceVersion": "x"},
        "a bad field": {"fieldSelector": "data.a=1"},
        "with initial events": {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "labelSelector": "all",
        },
        "with initial events, no match": {"sendInitialEvents": "true", "allowWatchBookmarks": "true"},
    }.items():
        yield Exchange(f"watch {title}", "GET", maps, query={"watch": "true", "timeoutSeconds": "1", **query})


def _deletions() -> Iterator[Exchange]:
    maps = f"{_IN}/configmaps"
    yield Exchange("delete nothing", "DELETE", f"{maps}/none")
    yield Exchange("delete by a wrong uid", "DELETE", f"{maps}/l1", {"preconditions": {"uid": "1234"}})
    yield Exchange("delete by an old version", "DELETE", f"{maps}/l1", {"preconditions": {"resourceVersion": "1"}})
    yield Exchange("delete in no way", "DELETE", f"{maps}/l1", {"propagationPolicy": "Sideways"})
    yield Exchange("delete, dry", "DELETE", f"{maps}/l1", query={"dryRun": "All"})
    yield Exchange("delete", "DELETE", f"{maps}/l1")
    kept = config_map("kept", finalizers=["example.org/keep"])
    yield Exchange("create with a finalizer", "POST", maps, kept)
    yield Exchange("delete with a finalizer", "DELETE", f"{maps}/kept")
    yield Exchange("delete again", "DELETE", f"{maps}/kept")
    yield Exchange(
        "add a finalizer too late",
        "PATCH",
        f"{maps}/kept",
        {"metadata": {"finalizers": ["b.org/c"]}},
        media=MERGE_PATCH,
    )
    yield Exchange("let go", "PATCH", f"{maps}/kept", {"metadata": {"finalizers": None}}, media=MERGE_PATCH)
    yield Exchange("gone", "GET", f"{maps}/kept")
    yield Exchange("bad finalizer", "POST", maps, config_map("n", finalizers=["short"]))
    yield Exchange("delete many", "DELETE", maps, query={"labelSelector": "all"})


def _pods() -> Iterator[Exchange]:
    pods, one = f"{_IN}/pods", f"{_IN}/pods/p"
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
    yield Exchange("get pods as table", "GET", pods, query={"fieldSelector": "metadata.name=p"}, accept=_TABLE)
    yield Exchange("change a pod's image", "PATCH", one, _image("other"), media=STRATEGIC_PATCH)
    command = {"spec": {"containers": [{"name": "main", "command": ["false"]}]}}
    yield Exchange("change a pod's command", "PATCH", one, command, media=STRATEGIC_PATCH)
    yield Exchange(
        "status through the main door", "PATCH", one, {"status": {"phase": "Running"}}, media=MERGE_PATCH
    )
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


def _image(name: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "image": name}]}}


def _services() -> Iterator[Exchange]:
    services, one = f"{_IN}/services", f"{_IN}/services/s"
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
    yield Exchange("get a service as table", "GET", f"{services}/h", accept=_TABLE)
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
    yield Exchange("strategic for a job", "PATCH", one, _size(4), media=STRATEGIC_PATCH)
    yield Exchange("a job as table", "GET", one, accept=_TABLE)
    yield Exchange("jobs as table", "GET", JOBS, accept=_TABLE)
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
    yield Exchange("apply", "PATCH", f"{_IN}/configmaps/m", apply, {"fieldManager": "t"}, APPLY_PATCH)
    yield Exchange("an unknown path", "GET", "/nonsense")
    yield Exchange("an unknown group", "GET", "/apis/none.example.org/v1/things")
    yield Exchange("an unknown version", "GET", "/apis/elasticdeeplearning.ai/v9/aitrainingjobs")
    yield Exchange("an unknown resource", "GET", "/api/v1/nonsenses")
    yield Exchange("an unknown subresource", "GET", f"{_IN}/configmaps/m/nonsense")
    yield Exchange("a wrong verb", "PUT", f"{_IN}/configmaps", config_map())
    yield Exchange("a wrong verb on an object", "POST", f"{_IN}/configmaps/m", config_map())
    yield Exchange("an unknown form", "GET", f"{_IN}/configmaps/m", accept="text/html")
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
    yield Exchange("create an event", "POST", f"{_IN}/events", event)
    other = {
        **event,
        "metadata": {"name": "f"},
        "involvedObject": {**event["involvedObject"], "namespace": "other"},
    }
    yield Exchange("create an event about elsewhere", "POST", f"{_IN}/events", other)
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
