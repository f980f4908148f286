from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pliant.embedded.registry.jsonpath import JsonPath
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.pod_columns import pod_status_text
from pliant.embedded.registry.tables import build_table, format_age, format_duration
from pliant.errors import BadRequest, InvalidSpec
from tests.embedded.crd_examples import make_crd

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BEFORE = "2026-01-02T02:04:05Z"


def kind_of(api_version: str, name: str) -> Kind:
    catalog = KindRegistry.with_builtin_kinds()
    catalog.register_crd(make_crd())
    kind = catalog.find_kind(api_version, name)
    assert kind is not None
    return kind


def row(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    obj = {**obj, "metadata": {"name": "x", "creationTimestamp": BEFORE, **obj.get("metadata", {})}}
    shown = build_table(kind, [obj], NOW)
    return dict(zip([column["name"] for column in shown["columnDefinitions"]], shown["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (600, "10m"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 600, "3h10m"),
        (8 * 3600 + 600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (74 * 3600, "3d2h"),
        (8 * 86400 + 3600, "8d"),
        (600 * 86400, "600d"),
        (800 * 86400, "2y70d"),
        (3650 * 86400, "10y"),
    ],
)
def test_durations_read_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


def test_an_age_needs_a_timestamp() -> None:
    assert format_age(None, NOW) == "<unknown>"
    assert format_age("soon", NOW) == "<invalid>"
    assert format_age("2026-01-02T03:04:00.123456Z", NOW) == "4s"


OBJECT = {"a": {"b.c": 1, "list": [{"type": "x", "v": 1}, {"type": "Ready", "v": 2}]}, "n": 3}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".n", [3]),
        ("n", [3]),
        ("{.n}", [3]),
        ("$.n", [3]),
        (".a['b.c']", [1]),
        (r".a.b\.c", [1]),
        (".a.list[0].v", [1]),
        (".a.list[-1].v", [2]),
        (".a.list[5].v", []),
        (".a.list[-1:].v", [2]),
        (".a.list[:1].v", [1]),
        (".n[0:1]", []),
        (".a.list[*].v", [1, 2]),
        ('.a.list[?(@.type=="Ready")].v', [2]),
        (".a.list[?(@.type!='Ready')].v", [1]),
        (".a.list[?(@.v==2)].type", ["Ready"]),
        (".a.missing.deep", []),
        (".n.deep", []),
        (".", [OBJECT]),
    ],
)
def test_paths_find_values(path: str, found: list[Any]) -> None:
    assert JsonPath.parse(path).find_all(OBJECT) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(x)]", ".a..b", ".a]"])
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(InvalidSpec):
        JsonPath.parse(path)


def _status(**state: Any) -> dict[str, Any]:
    return {"name": "c", "state": state}


DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.parametrize(
    ("pod", "word"),
    [
        ({}, ""),
        ({"status": {"phase": "Pending"}}, "Pending"),
        ({"status": {"phase": "Running", "containerStatuses": [_status(running={})]}}, "Running"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
        (
            {"status": {"phase": "Pending", "containerStatuses": [_status(waiting={"reason": "ContainerCreating"})]}},
            "ContainerCreating",
        ),
        (
            {"status": {"phase": "Running", "containerStatuses": [_status(waiting={"reason": "CrashLoopBackOff"})]}},
            "CrashLoopBackOff",
        ),
        ({"status": {"phase": "Succeeded", "containerStatuses": [_status(**DONE)]}}, "Completed"),
        (
            {
                "status": {
                    "phase": "Failed",
                    "containerStatuses": [_status(terminated={"exitCode": 1, "reason": "Error"})],
                }
            },
            "Error",
        ),
        ({"status": {"phase": "Failed", "containerStatuses": [_status(terminated={"exitCode": 3})]}}, "ExitCode:3"),
        (
            {"status": {"phase": "Failed", "containerStatuses": [_status(terminated={"exitCode": 137, "signal": 9})]}},
            "Signal:9",
        ),
        (
            {
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "containerStatuses": [_status(**DONE), _status(running={}) | {"ready": True}],
                }
            },
            "NotReady",
        ),
        (
            {
                "spec": {"initContainers": [{}, {}]},
                "status": {"phase": "Pending", "initContainerStatuses": [_status(**DONE), _status(running={})]},
            },
            "Init:1/2",
        ),
        (
            {
                "spec": {"initContainers": [{}]},
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [_status(terminated={"exitCode": 1, "reason": "Error"})],
                },
            },
            "Init:Error",
        ),
        (
            {
                "spec": {"initContainers": [{}]},
                "status": {
                    "phase": "Pending",
                    "initContainerStatuses": [_status(waiting={"reason": "CrashLoopBackOff"})],
                },
            },
            "Init:CrashLoopBackOff",
        ),
        ({"metadata": {"deletionTimestamp": BEFORE}, "status": {"phase": "Running"}}, "Terminating"),
        (
            {
                "metadata": {"deletionTimestamp": BEFORE},
                "status": {"phase": "Succeeded", "containerStatuses": [_status(**DONE)]},
            },
            "Completed",
        ),
        ({"metadata": {"deletionTimestamp": BEFORE}, "status": {"phase": "Running", "reason": "NodeLost"}}, "Unknown"),
        (
            {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            "SchedulingGated",
        ),
    ],
)
def test_a_pod_is_described_in_one_word(pod: dict[str, Any], word: str) -> None:
    assert pod_status_text({"metadata": {}, **pod}) == word


def test_pods_show_the_columns_of_kubectl() -> None:
    container = {
        "name": "c",
        "ready": True,
        "restartCount": 2,
        "state": {"running": {}},
        "lastState": {"terminated": {"finishedAt": "2026-01-02T03:03:05Z"}},
    }
    pod = {
        "spec": {"containers": [{}, {}], "nodeName": "n1", "readinessGates": [{"conditionType": "G"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [container]},
    }
    assert row(kind_of("v1", "Pod"), pod) == {
        "Name": "x",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": "2 (60s ago)",
        "Age": "60m",
        "IP": "10.0.0.1",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "0/1",
    }


def test_services_show_the_columns_of_kubectl() -> None:
    spec = {"type": "ClusterIP", "clusterIP": "10.1.1.1", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}
    assert row(kind_of("v1", "Service"), {"spec": spec | {"selector": {"b": "2", "a": "1"}}}) == {
        "Name": "x",
        "Type": "ClusterIP",
        "Cluster-IP": "10.1.1.1",
        "External-IP": "<none>",
        "Port(s)": "80/TCP,53/UDP",
        "Age": "60m",
        "Selector": "a=1,b=2",
    }


def test_nodes_show_the_columns_of_kubectl() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
            "nodeInfo": {"kubeletVersion": "v1.32.0", "osImage": "Linux"},
        },
    }
    shown = row(kind_of("v1", "Node"), node)
    assert shown["Status"] == "Ready,SchedulingDisabled"
    assert (shown["Roles"], shown["Version"], shown["Internal-IP"]) == ("worker", "v1.32.0", "10.0.0.9")
    assert shown["Kernel-Version"] == "<unknown>"


def test_events_show_the_columns_of_kubectl() -> None:
    event = {
        "type": "Warning",
        "reason": "Failed",
        "message": "no command\n",
        "involvedObject": {"kind": "Pod", "name": "p"},
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": BEFORE,
        "lastTimestamp": "2026-01-02T03:04:00Z",
        "count": 3,
    }
    shown = row(kind_of("v1", "Event"), event)
    assert list(shown)[:4] == ["Last Seen", "Type", "Reason", "Object"]
    assert shown == {
        "Last Seen": "5s",
        "Type": "Warning",
        "Reason": "Failed",
        "Object": "pod/p",
        "Subobject": "",
        "Source": "kubelet, n1",
        "Message": "no command",
        "First Seen": "60m",
        "Count": 3,
        "Name": "x",
    }


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "shown"),
    [
        ("v1", "Namespace", {"status": {"phase": "Active"}}, {"Status": "Active"}),
        ("v1", "ConfigMap", {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Data": 2}),
        ("v1", "Secret", {"type": "Opaque", "data": {"a": ""}}, {"Type": "Opaque", "Data": 1}),
        ("v1", "ServiceAccount", {}, {}),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
    ],
)
def test_small_kinds_show_the_columns_of_kubectl(api_version: str, kind: str, obj: Any, shown: dict[str, Any]) -> None:
    assert row(kind_of(api_version, kind), obj) == {"Name": "x", **shown, "Age": "60m"}


def test_crds_show_when_they_were_made() -> None:
    shown = row(kind_of("apiextensions.k8s.io/v1", "CustomResourceDefinition"), {})
    assert shown == {"Name": "x", "Created At": BEFORE}


def test_custom_resources_show_the_columns_they_state() -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    assert row(kind_of("example.org/v1", "Job"), {"spec": {"replicas": 2}, "status": status}) == {
        "Name": "x",
        "State": "Running",
        "Ready": "False",
        "Replicas": 2,
        "Age": "60m",
    }
    empty = row(kind_of("example.org/v1", "Job"), {})
    assert (empty["State"], empty["Ready"], empty["Replicas"]) == (None, None, None)
    assert row(kind_of("example.org/v1beta1", "Job"), {}) == {"Name": "x", "Age": "60m"}


def test_a_row_carries_as_much_of_its_object_as_was_asked_for() -> None:
    pod = {"metadata": {"name": "x"}, "spec": {}}
    kind = kind_of("v1", "Pod")
    assert "object" not in build_table(kind, [pod], NOW, include_object="None")["rows"][0]
    assert build_table(kind, [pod], NOW, include_object="Object")["rows"][0]["object"] is pod
    partial = build_table(kind, [pod], NOW)["rows"][0]["object"]
    assert partial == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    with pytest.raises(BadRequest):
        build_table(kind, [pod], NOW, include_object="Everything")


def test_watch_events_may_leave_the_headings_out() -> None:
    shown = build_table(
        kind_of("v1", "Pod"), [{"metadata": {"name": "x"}}], NOW, resource_version="7", include_headers=False
    )
    assert shown["columnDefinitions"] == []
    assert shown["metadata"] == {"resourceVersion": "7"}
    assert shown["rows"][0]["cells"][0] == "x"
