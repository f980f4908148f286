"""Without namespaces names are told as addresses and mounts as folders, wherever words of a pod name them."""

from __future__ import annotations

import json

import pytest

from pliant.embedded.kubelet.environment.command_rewriter import CommandRewriter, is_path_mentioned, mount_variable
from pliant.embedded.network.host_network import ClusterHostnameRewriter, LoopbackAddressAllocator
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.object_views import (
    PodObjectMeta,
    PodSpecView,
    PodStatusView,
    PodView,
    ServiceSpecView,
    ServiceView,
)
from pliant.kube.objects import Condition, ObjectMeta

FIRST, SECOND = "127.64.0.2", "127.64.0.3"


@pytest.fixture
def names() -> ServiceIndex:
    """Two members, `job-0` and `job-1`, that are yet to come, and a few other services."""
    names = ServiceIndex()
    for name in ("job-0", "job-1"):
        names.on_service_change(None, _service(name, cluster_ip="None", selector={"index": name}))
    names.on_service_change(None, _service("ring", cluster_ip="None", selector={"app": "ring"}))
    names.on_service_change(None, _service("web", cluster_ip="10.96.0.10", selector={"app": "web"}))
    names.on_service_change(None, _service("far", external_name="example.org"))
    return names


@pytest.fixture
def directory(names: ServiceIndex) -> ClusterHostnameRewriter:
    directory = ClusterHostnameRewriter(names, LoopbackAddressAllocator("127.64.0.1"))
    assert directory.rewrite_hostnames("job-0.default job-1.default") == f"{FIRST} {SECOND}"
    return directory


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("job-0.default", FIRST),
        ("job-0.default:2222,job-1.default:2222", f"{FIRST}:2222,{SECOND}:2222"),
        ("tcp://job-1.default.svc.cluster.local:23456/x", f"tcp://{SECOND}:23456/x"),
        ("job-0.default.svc", FIRST),
        ("--master=job-0.default --port 1", f"--master={FIRST} --port 1"),
        ("job-1.ring.default.svc.cluster.local", SECOND),
        ("me@job-1.default", f"me@{SECOND}"),
        ("web.default:80", "127.65.0.10:80"),
        ("http://far.default/", "http://example.org/"),
    ],
)
def test_names_are_told_as_addresses(directory: ClusterHostnameRewriter, said: str, heard: str) -> None:
    assert directory.rewrite_hostnames(said) == heard


def test_names_are_told_in_json(directory: ClusterHostnameRewriter) -> None:
    config = {"cluster": {"worker": ["job-0.default:2222", "job-1.default:2222"]}, "task": {"index": 1}}
    told = json.loads(directory.rewrite_hostnames(json.dumps(config)))
    assert told["cluster"] == {"worker": [f"{FIRST}:2222", f"{SECOND}:2222"]}
    assert told["task"] == config["task"]


@pytest.mark.parametrize(
    "said",
    [
        "job-0",
        "job-0.default.py",
        "my-job-0.default",
        "_job-0.default",
        "job-0.default_x",
        "job-0.elsewhere",
        "/data/job-0.default",
        "/job-0.default",
        "kubernetes.default.svc",
        "web.web.default",
        "1.0.default",
    ],
)
def test_what_is_no_name_stays(directory: ClusterHostnameRewriter, said: str) -> None:
    assert directory.rewrite_hostnames(said) == said


def test_a_service_of_others_is_where_the_first_of_them_is(
    names: ServiceIndex, directory: ClusterHostnameRewriter
) -> None:
    pod = PodView(
        metadata=PodObjectMeta(name="b", namespace="default", labels={"app": "ring"}),
        spec=PodSpecView(node_name="node-0"),
        status=PodStatusView(
            phase="Running", pod_ip="127.64.9.9", conditions=(Condition(type="Ready", status="True"),)
        ),
    )
    assert directory.rewrite_hostnames("ring.default") == "127.64.0.4", "that of a pod called so"
    names.on_pod_change(None, pod)
    assert directory.rewrite_hostnames("ring.default") == "127.64.9.9"


def test_what_is_no_text_stays(directory: ClusterHostnameRewriter) -> None:
    assert directory.rewrite_hostnames_in_bytes(b"job-0.default") == FIRST.encode()
    assert directory.rewrite_hostnames_in_bytes(b"\xffjob-0.default") == b"\xffjob-0.default"


def test_a_member_that_comes_back_is_where_it_was() -> None:
    allotment = LoopbackAddressAllocator("127.64.0.1")
    first = allotment.hostname_address("default/a")
    assert allotment.allocate("default/a", "uid-1", "default/a") == first
    assert allotment.allocate("default/a", "uid-2", "default/a") == first, "the old one may still be leaving"
    other = allotment.allocate("default/a", "uid-3", "default/b")
    assert other != first, "two members that call themselves alike"
    allotment.release("uid-1")
    allotment.release("uid-2")
    assert allotment.allocate("default/a", "uid-4", "default/a") == first


def test_addresses_of_names_that_nobody_has_are_used_again() -> None:
    allotment = LoopbackAddressAllocator("127.64.0.1")
    held = allotment.allocate("default/kept", "uid", "default/kept")
    seen = {allotment.hostname_address(f"default/{number}") for number in range(70_000)}
    assert held not in seen
    assert allotment.hostname_address("default/kept") == held
    assert "127.64.0.1" not in seen
    assert all(address.startswith("127.64.") for address in seen)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("/app", "/pods/1/code"),
        ("/app/train.py", "/pods/1/code/train.py"),
        ("cat /app/a /app/sub/b", "cat /pods/1/code/a /pods/1/sub/b"),
        ("--data=/app", "--data=/pods/1/code"),
        ("PYTHONPATH=/lib:/app", "PYTHONPATH=/lib:/pods/1/code"),
        ("file:///app/x", "file:///pods/1/code/x"),
        ("/app.", "/pods/1/code."),
        ("/application /app-2 /app.py /my/app ~/app $HOME/app ./app", None),
    ],
)
def test_mount_paths_are_told_as_folders(said: str, heard: str | None) -> None:
    wording = CommandRewriter(
        mount_sources={"/app": "/pods/1/code", "/app/sub": "/pods/1/sub"}, rewrite_hostnames=lambda text: text
    )
    assert wording.rewrite_text(said) == (said if heard is None else heard)


def test_every_mount_has_a_variable() -> None:
    wording = CommandRewriter(mount_sources={"/var/my-data": "/pods/1/x"}, rewrite_hostnames=lambda text: text)
    assert wording.rewrite_env({"A": "/var/my-data/y"}) == {"PLIANT_MOUNT_VAR_MY_DATA": "/pods/1/x", "A": "/pods/1/x/y"}
    assert mount_variable("/var/my-data") == "PLIANT_MOUNT_VAR_MY_DATA"


@pytest.mark.parametrize(
    ("variable", "said", "heard"),
    [
        ("MASTER_ADDR", "job-0", FIRST),
        ("RDZV_ENDPOINT", "job-0", FIRST),
        ("PET_RDZV_ENDPOINT", "job-1:23456", f"{SECOND}:23456"),
        ("WORKER_ADDRS", "job-0,job-1", f"{FIRST},{SECOND}"),
        ("INIT_URL", "tcp://job-0:2222/x", f"tcp://{FIRST}:2222/x"),
        ("MX_CONFIG", '{"url": "job-1", "index": 1}', f'{{"url": "{SECOND}", "index": 1}}'),
        ("POD_NAME", "job-0", "job-0"),
        ("HOSTNAME", "job-0", "job-0"),
        ("MASTER_ADDR", "job-0.other", "job-0.other"),
        ("DATA_URL", "/data/job-0", "/data/job-0"),
        ("MASTER_ADDR", "nobody", "nobody"),
    ],
)
def test_bare_names_count_where_an_address_is_meant(
    directory: ClusterHostnameRewriter, variable: str, said: str, heard: str
) -> None:
    wording = CommandRewriter(
        mount_sources={},
        rewrite_hostnames=directory.rewrite_hostnames,
        rewrite_short_hostnames=lambda text: directory.rewrite_hostnames_and_services(text, "default"),
    )
    assert wording.rewrite_env({variable: said}) == {variable: heard}


def test_a_path_is_named_only_as_a_whole() -> None:
    assert is_path_mentioned("/app", ["python3", "/app/x.py"])
    assert not is_path_mentioned("/app", ["python3", "/apps/x.py"])
    assert CommandRewriter(mount_sources={}, rewrite_hostnames=str.upper).rewrite_text("as it is") == "AS IT IS"


def _service(
    name: str, *, cluster_ip: str = "", selector: dict[str, str] | None = None, external_name: str = ""
) -> ServiceView:
    spec = ServiceSpecView(cluster_ip=cluster_ip, selector=selector or {}, external_name=external_name)
    return ServiceView(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
