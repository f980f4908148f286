"""Hosts files hold every name that pods may ask for, and change in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.embedded.names import Names
from pliant.embedded.views import PodMeta, PodSpecView, PodStatusView, PodView, ServiceSpecView, ServiceView
from pliant.kube.objects import Condition, ObjectMeta
from tests.node.running import eventually


@pytest.fixture
def names(tmp_path: Path) -> Names:
    return Names(tmp_path / "hosts", "10.88.0.1")


async def test_a_service_is_known_by_four_names_at_home_and_three_abroad(names: Names) -> None:
    home, abroad = names.file_of("default"), names.file_of("other")
    inode = home.stat().st_ino
    names.service_changed(None, _service("db", {"app": "db"}))
    names.pod_changed(None, _pod("db-0", "10.88.0.2", {"app": "db", "more": "x"}))
    names.pod_changed(None, _pod("db-1", "10.88.0.3", {"app": "db"}, is_ready=False))
    names.pod_changed(None, _pod("web", "10.88.0.4", {"app": "web"}))
    full = "db.default db.default.svc db.default.svc.cluster.local"
    await eventually(lambda: f"10.88.0.2\tdb {full}\n" in home.read_text(), what="its name is known")
    assert f"10.88.0.2\t{full}\n" in abroad.read_text()
    assert "10.88.0.3" not in home.read_text()
    assert home.stat().st_ino == inode


async def test_a_service_may_show_pods_before_they_are_ready(names: Names) -> None:
    file = names.file_of("default")
    names.service_changed(None, _service("db", {"app": "db"}, even_unready=True))
    names.pod_changed(None, _pod("db-0", "10.88.0.2", {"app": "db"}, is_ready=False))
    await eventually(lambda: "10.88.0.2\tdb " in file.read_text(), what="it is shown")


async def test_names_go_with_their_pods(names: Names) -> None:
    file = names.file_of("default")
    pod = _pod("db-0", "10.88.0.2", {"app": "db"})
    names.service_changed(None, _service("db", {"app": "db"}))
    names.assign("default", "db-0", "10.88.0.2")
    names.pod_changed(None, pod)
    await eventually(lambda: "db.default" in file.read_text(), what="it is known")
    names.pod_changed(pod, None)
    names.withdraw("default", "db-0", "10.88.0.2")
    await eventually(lambda: "10.88.0.2" not in file.read_text(), what="it is forgotten")
    assert file.read_text().endswith("\n")


async def test_a_host_name_is_known_at_once(names: Names) -> None:
    names.assign("default", "worker-0", "10.88.0.2")
    assert "10.88.0.2\tworker-0\n" in names.file_of("default").read_text()
    names.assign("default", "worker-0", "10.88.0.3")
    names.withdraw("default", "worker-0", "10.88.0.2")
    assert "10.88.0.3\tworker-0\n" in names.file_of("default").read_text()


async def test_a_pod_in_a_subdomain_has_a_name_of_its_own(names: Names) -> None:
    file = names.file_of("default")
    names.service_changed(None, _service("ring", {"app": "ring"}))
    names.pod_changed(None, _pod("node-0", "10.88.0.2", {"app": "ring"}, subdomain="ring"))
    await eventually(lambda: " node-0.ring.default.svc.cluster.local" in file.read_text(), what="it is known")


def _service(name: str, selector: dict[str, str], *, even_unready: bool = False) -> ServiceView:
    spec = ServiceSpecView(selector=selector, publish_not_ready_addresses=even_unready)
    return ServiceView(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def _pod(
    name: str, address: str, labels: dict[str, str], *, is_ready: bool = True, subdomain: str = ""
) -> PodView:
    ready = Condition(type="Ready", status="True" if is_ready else "False")
    return PodView(
        metadata=PodMeta(name=name, namespace="default", uid=name, labels=labels),
        spec=PodSpecView(subdomain=subdomain),
        status=PodStatusView(phase="Running", pod_ip=address, conditions=(ready,)),
    )
