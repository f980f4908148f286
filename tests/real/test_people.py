"""Rights of people at a real cluster: Kubernetes' own roles reach to training jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installed import PATIENCE, PULSE, kubectl, may, printed, wait_served
from tests.quickyaml import without_definitions

pytestmark = pytest.mark.real

JOBS = "aitrainingjobs.elasticdeeplearning.ai"


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for what the cluster's controllers do in their own time."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, f"never came: {what}"
        time.sleep(PULSE)


@pytest.mark.usefixtures("job_kinds")
def test_who_may_edit_or_view_a_namespace_may_do_so_with_its_jobs(plane: ControlPlane) -> None:
    wait_served(plane.kubeconfig, JOBS)
    roles = filter(is_for_people, without_definitions(printed("install")))
    kubectl(plane.kubeconfig, "apply", "-f", "-", stdin=yaml.safe_dump_all([*roles]))
    for role in ("edit", "view"):
        words = ("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}er", "--namespace=default")
        kubectl(plane.kubeconfig, *words)
    editor, viewer = plane.kubeconfig_for("editer"), plane.kubeconfig_for("viewer")
    eventually(lambda: may(editor, "create", JOBS, "--namespace=default"), "the right to make jobs")
    eventually(lambda: may(viewer, "watch", JOBS, "--namespace=default"), "the right to see jobs")
    assert may(editor, "patch", JOBS, "--subresource=scale", "--namespace=default")
    assert may(editor, "list", JOBS, "--namespace=default")
    assert not may(editor, "patch", JOBS, "--subresource=status", "--namespace=default")
    assert not may(editor, "create", JOBS, "--namespace=kube-system")
    assert not may(viewer, "delete", JOBS, "--namespace=default")


def is_for_people(manifest: dict[str, object]) -> bool:
    return manifest["kind"] == "ClusterRole" and "aggregate-to" in str(manifest["metadata"])
