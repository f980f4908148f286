"""The preStop hook and its directory do not get in the way of what a pod template has already."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pliant.engine.decide import decide
from pliant.engine.pods.checkpoint_hook import SIGNAL_DIR
from pliant.model.actions import Act, CreatePod
from tests.builders import NOON, PlainFramework, make_group, make_job, seeing

EMPTY: dict[str, Any] = {"name": "x", "emptyDir": {}}


def created(spec: dict[str, Any], *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The spec of the pod of an elastic group with these containers."""
    named = [{"name": f"c{index}", "image": "i", **each} for index, each in enumerate(containers)]
    template = {"spec": {**spec, "containers": named}}
    job = make_job(replace(make_group(size=1, is_elastic=True, min_size=1), template=template), **fields)
    decision = decide(job, None, seeing(), PlainFramework(), NOON)
    assert isinstance(decision, Act)
    [pod] = [action.manifest for action in decision.actions if isinstance(action, CreatePod)]
    made: dict[str, Any] = pod["spec"]
    assert max(Counter(volume["name"] for volume in made.get("volumes", ())).values(), default=1) == 1
    for container in made["containers"]:
        mounts = container.get("volumeMounts", ())
        assert max(Counter(mount["mountPath"] for mount in mounts).values(), default=1) == 1
        assert {mount["name"] for mount in mounts} <= {volume["name"] for volume in made.get("volumes", ())}
    return made


def hooks(spec: dict[str, Any]) -> list[bool]:
    """Which containers wait for the state to be saved."""
    texts = [str((each.get("lifecycle") or {}).get("preStop")) for each in spec["containers"]]
    return ["checkpoint-done" in text for text in texts]


@pytest.mark.parametrize("mounted", ["/data", SIGNAL_DIR])
def test_a_volume_of_the_same_name_is_no_obstacle(mounted: str) -> None:
    mounts = [{"name": "pliant-run", "mountPath": mounted}]
    spec = created({"volumes": [{"name": "pliant-run", "emptyDir": {}}]}, {"volumeMounts": mounts}, {})
    assert hooks(spec) == [mounted == "/data", True]


def test_the_files_with_the_membership_share_no_name_either() -> None:
    volumes = [{"name": "pliant-membership", "emptyDir": {}}, {"name": "pliant-membership-0", "emptyDir": {}}]
    assert hooks(created({"volumes": volumes}, {}, has_membership_file=True)) == [True]


@pytest.mark.parametrize(
    ("volume", "mount", "has_hook"),
    [
        (EMPTY, {"mountPath": "/var/run"}, True),
        (EMPTY, {"mountPath": "/var/run/", "readOnly": True}, False),
        (EMPTY, {"mountPath": "/run", "readOnly": True}, False),
        (EMPTY, {"mountPath": "/var/run/secrets", "readOnly": True}, True),
        ({"name": "x", "configMap": {"name": "settings"}}, {"mountPath": "/var/run"}, False),
        (EMPTY, {"mountPath": "/var/run/pliant/"}, False),
        (EMPTY, {"mountPath": "/run/pliant"}, False),
    ],
)
def test_the_directory_needs_a_place(volume: dict[str, Any], mount: dict[str, Any], has_hook: bool) -> None:
    spec = created({"volumes": [volume]}, {"volumeMounts": [{"name": "x", **mount}]})
    assert hooks(spec) == [has_hook]
    assert len(spec["volumes"]) == 1 + has_hook


def test_a_hook_of_the_user_stays() -> None:
    own = {"preStop": {"exec": {"command": ["sync"]}}}
    spec = created({"terminationGracePeriodSeconds": 1}, {"lifecycle": own}, checkpoint_grace=timedelta(minutes=5))
    assert spec["containers"][0]["lifecycle"] == own
    assert (spec.get("volumes"), spec["terminationGracePeriodSeconds"]) == (None, 1)


def test_there_is_time_for_the_hook_and_the_exit() -> None:
    grace = timedelta(seconds=60)
    for configured, expected in ((None, 65), (1, 65), (0, 65), (600, 600)):
        spec = {} if configured is None else {"terminationGracePeriodSeconds": configured}
        assert created(spec, {}, checkpoint_grace=grace)["terminationGracePeriodSeconds"] == expected


def test_containers_that_start_first_have_no_hook() -> None:
    sidecar = {"name": "log", "image": "i", "restartPolicy": "Always"}
    spec = created({"initContainers": [sidecar]}, {}, {})
    assert "lifecycle" not in spec["initContainers"][0]
    assert hooks(spec) == [True, True]
