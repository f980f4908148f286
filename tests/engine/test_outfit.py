"""What all members carry alike, and what becomes of it when it grows too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pliant.engine.pods.manifests import config_map_manifest, pod_manifest
from pliant.engine.pods.shared_environment import (
    MAX_CONFIG_MAP_BYTES,
    MAX_INLINE_ENVIRONMENT_BYTES,
    MAX_INLINE_VARIABLE_BYTES,
    build_shared_environment,
)
from pliant.errors import InvalidSpec
from pliant.model.actions import CreateConfigMap, CreatePod, CreateService
from pliant.model.framework import Rank
from pliant.model.job import Job
from tests.builders import NOON, PlainFramework, decide_stored, make_group, make_job, make_pod, seeing
from tests.engine.rulings import actions_of

CONTAINER: dict[str, Any] = {"name": "main", "image": "train"}


class Talkative(PlainFramework):
    """Tells everybody the same."""

    def __init__(self, **told: str) -> None:
        self.told = told
        self.asked = 0

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        self.asked += 1
        return self.told


def pod_of(framework: Talkative, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"spec": {**spec, "containers": list(containers or (CONTAINER,))}}
    group = replace(make_group(), template=template)
    return pod_manifest(build_shared_environment(make_job(group), framework), Rank(group=group, index=0, attempt=0))


def variables(pod: dict[str, Any], number: int = 0) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][number]["env"]}


def test_what_is_shared_is_asked_for_once_however_many_members_there_are() -> None:
    framework = Talkative(HOSTS="a,b")
    decision = decide_stored(make_job(make_group(size=100)), seeing(), framework, NOON)
    pods = [action for action in actions_of(decision) if isinstance(action, CreatePod)]
    assert len(pods) == 100
    assert framework.asked == 1


def test_nobody_asks_while_all_is_well() -> None:
    framework = Talkative(HOSTS="a,b")
    decide_stored(make_job(make_group(size=1)), seeing(make_pod()), framework, NOON)
    assert framework.asked == 0


def test_what_is_short_is_a_variable_and_needs_no_file() -> None:
    pod = pod_of(Talkative(HOSTS="x" * MAX_INLINE_VARIABLE_BYTES))
    assert variables(pod) == {"INDEX": "0", "HOSTS": "x" * MAX_INLINE_VARIABLE_BYTES}
    assert "volumes" not in pod["spec"]
    assert "volumeMounts" not in pod["spec"]["containers"][0]


def test_what_is_too_long_is_a_file_that_a_variable_names() -> None:
    framework = Talkative(HOSTS="x" * (MAX_INLINE_VARIABLE_BYTES + 1), HOSTS_NUM="7")
    outfit = build_shared_environment(make_job(), framework)
    pod = pod_of(framework, {**CONTAINER, "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
    assert variables(pod) == {"INDEX": "0", "HOSTS_FILE": "/etc/pliant/env/HOSTS", "HOSTS_NUM": "7"}
    assert pod["spec"]["volumes"] == [
        {"name": "pliant-env", "configMap": {"name": outfit.config_map_name, "defaultMode": 0o444}}
    ]
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"},
        {"name": "pliant-env", "mountPath": "/etc/pliant/env", "readOnly": True},
    ]


def test_a_volume_of_the_user_where_files_would_be_is_left_there() -> None:
    own = {"name": "data", "mountPath": "/etc/pliant/env/"}
    pod = pod_of(
        Talkative(HOSTS="x" * (MAX_INLINE_VARIABLE_BYTES + 1)),
        {**CONTAINER, "volumeMounts": [own]},
        {"name": "sidecar"},
    )
    assert pod["spec"]["containers"][0]["volumeMounts"] == [own]
    assert pod["spec"]["containers"][1]["volumeMounts"][0]["name"] == "pliant-env"


def test_init_containers_and_volumes_of_the_user_are_kept_beside_it() -> None:
    volume = {"name": "data", "emptyDir": {}}
    pod = pod_of(
        Talkative(HOSTS="x" * (MAX_INLINE_VARIABLE_BYTES + 1)), initContainers=[{"name": "fetch"}], volumes=[volume]
    )
    assert [each["name"] for each in pod["spec"]["volumes"]] == ["data", "pliant-env"]
    assert pod["spec"]["initContainers"][0]["volumeMounts"][0]["name"] == "pliant-env"


def test_what_is_too_much_together_becomes_files_longest_first() -> None:
    many = {f"V{number}": "x" * (MAX_INLINE_VARIABLE_BYTES - number) for number in range(5)}
    assert sum(map(len, many.values())) > MAX_INLINE_ENVIRONMENT_BYTES
    outfit = build_shared_environment(make_job(), Talkative(**many))
    assert list(outfit.variable_files) == ["V0"]


def test_a_variable_of_the_users_own_takes_the_place_of_a_file() -> None:
    framework = Talkative(HOSTS="x" * (MAX_INLINE_VARIABLE_BYTES + 1))
    own = [{"name": "HOSTS", "value": "mine"}]
    assert variables(pod_of(framework, {**CONTAINER, "env": own})) == {"INDEX": "0", "HOSTS": "mine"}
    own = [{"name": "HOSTS_FILE", "value": "/mine"}]
    assert variables(pod_of(framework, {**CONTAINER, "env": own})) == {"INDEX": "0", "HOSTS_FILE": "/mine"}


def test_files_are_laid_out_before_members_come_in_a_config_map_that_goes_with_the_job() -> None:
    framework = Talkative(HOSTS="x" * (MAX_INLINE_VARIABLE_BYTES + 1))
    actions = actions_of(decide_stored(make_job(make_group(size=2)), seeing(), framework, NOON))
    assert [type(action) for action in actions] == [CreateService, CreateService, CreateConfigMap, CreatePod, CreatePod]
    [made] = [action for action in actions if isinstance(action, CreateConfigMap)]
    assert made.name == made.manifest["metadata"]["name"]
    assert made.name.startswith("demo-env-")
    assert made.manifest["immutable"] is True
    assert made.manifest["data"] == framework.told
    assert made.manifest["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_other_content_and_another_job_of_the_name_have_another_config_map() -> None:
    job = make_job()
    reborn = replace(job, owner=replace(job.owner, uid="another"))
    short, other = (
        Talkative(HOSTS="x" * (MAX_INLINE_VARIABLE_BYTES + 1)),
        Talkative(HOSTS="y" * (MAX_INLINE_VARIABLE_BYTES + 1)),
    )
    names = {
        build_shared_environment(job, short).config_map_name,
        build_shared_environment(job, other).config_map_name,
        build_shared_environment(reborn, short).config_map_name,
    }
    assert len(names) == 3
    assert config_map_manifest(build_shared_environment(job, short)) == config_map_manifest(
        build_shared_environment(job, short)
    )


def test_more_than_a_config_map_holds_is_refused_with_what_to_do() -> None:
    talkative = Talkative(HOSTS="x" * (MAX_CONFIG_MAP_BYTES + 1))
    with pytest.raises(InvalidSpec, match=r"^spec\.replicaSpecs: the addresses of all replicas take 1,000,001 bytes"):
        decide_stored(make_job(make_group(path="spec.replicaSpecs.worker")), seeing(), talkative, NOON)
