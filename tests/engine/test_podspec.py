"""The manifests of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pliant.engine.pods.manifests import pod_manifest, service_manifest
from pliant.engine.pods.shared_environment import build_shared_environment
from pliant.model.actions import CreatePod, CreateService
from pliant.model.framework import Rank
from pliant.model.job import Job, Naming, Port, ReplicaGroup, RestartPolicy, RestartRule
from pliant.model.state import GroupMember
from tests.builders import PlainFramework, make_group, make_job
from tests.engine.rulings import actions_of, decided


def pod_of(template: dict[str, Any], rule: RestartRule | None = None, **job: Any) -> dict[str, Any]:
    group = replace(make_group(restart=rule), template=template)
    outfit = build_shared_environment(replace(make_job(group), **job), PlainFramework())
    return pod_manifest(outfit, Rank(group=group, index=1, attempt=2))


def one_container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def test_the_same_rank_always_makes_the_same_pod() -> None:
    assert pod_of(one_container()) == pod_of(one_container())


def test_a_pod_is_owned_by_its_job_and_labelled_by_its_place() -> None:
    metadata = pod_of({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}, **one_container()})[
        "metadata"
    ]
    assert metadata["ownerReferences"][0]["uid"] == "job-uid"
    assert metadata["annotations"] == {"note": "b"}
    assert metadata["labels"].items() >= {
        ("team", "a"),
        ("TrainingJobName", "demo"),
        ("TrainingJobReplicaName", "worker"),
        ("TrainingJobReplicaIndex", "1"),
        ("RestartCount", "2"),
    }


def test_nobody_may_dress_up_as_another_member() -> None:
    template = {"metadata": {"labels": {"TrainingJobReplicaIndex": "0"}}, **one_container()}
    assert pod_of(template)["metadata"]["labels"]["TrainingJobReplicaIndex"] == "1"


def test_our_variables_come_first_and_give_way_to_the_users_own() -> None:
    own = [{"name": "WHO", "value": "$(INDEX)"}, {"name": "OTHER", "value": "x"}]
    container = pod_of(one_container(env=own))["spec"]["containers"][0]
    assert [variable["name"] for variable in container["env"]] == ["INDEX", "WHO", "OTHER"]
    replaced = pod_of(one_container(env=[{"name": "INDEX", "value": "7"}]))["spec"]["containers"][0]
    assert replaced["env"] == [{"name": "INDEX", "value": "7"}]


def test_what_is_said_to_one_member_counts_more_than_what_is_said_to_all() -> None:
    class Talkative(PlainFramework):
        def shared_environment(self, job: Job) -> Mapping[str, str]:
            return {"INDEX": "any", "ALL": "yes"}

    group = make_group()
    pod = pod_manifest(build_shared_environment(make_job(group), Talkative()), Rank(group=group, index=1, attempt=0))
    assert pod["spec"]["containers"][0]["env"] == [{"name": "INDEX", "value": "1"}, {"name": "ALL", "value": "yes"}]


def test_init_containers_learn_who_they_are_too() -> None:
    template = {"spec": {"initContainers": [{"name": "fetch"}], "containers": [{"name": "main"}]}}
    assert pod_of(template)["spec"]["initContainers"][0]["env"] == [{"name": "INDEX", "value": "1"}]


def test_the_template_itself_is_never_changed() -> None:
    template = one_container(env=[])
    pod_of(template, RestartRule(policy=RestartPolicy.ALWAYS))
    assert template == one_container(env=[])


def test_pods_are_not_restarted_behind_the_engines_back() -> None:
    kept = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main"}]}}
    assert pod_of(one_container())["spec"]["restartPolicy"] == "Never"
    assert pod_of(kept)["spec"]["restartPolicy"] == "OnFailure"
    assert pod_of(kept, RestartRule(policy=RestartPolicy.NEVER))["spec"]["restartPolicy"] == "Never"


def test_scheduler_and_priority_of_the_job_fill_in_what_the_template_leaves_open() -> None:
    spec = pod_of(one_container(), scheduler_name="gang", priority_class="high")["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("gang", "high")
    own = {"spec": {"schedulerName": "mine", "containers": [{"name": "main"}]}}
    assert pod_of(own, scheduler_name="gang")["spec"]["schedulerName"] == "mine"


def resources_of(resources: dict[str, Any], **asked: str) -> dict[str, Any]:
    """What a member is given whose plan asks for this."""
    group = replace(make_group(), template=one_container(resources=resources))
    member = GroupMember(rank=1, resources={name.replace("_", "/"): amount for name, amount in asked.items()})
    outfit = build_shared_environment(make_job(group), PlainFramework())
    pod = pod_manifest(outfit, Rank(group=group, index=1, attempt=0, member=member))
    return dict(pod["spec"]["containers"][0]["resources"])


def test_limits_above_what_a_plan_asks_for_are_kept() -> None:
    written = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": 1, "memory": "1Gi"}}
    kept = resources_of(written, cpu="100m", memory="128Mi")
    assert kept == {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": 1, "memory": "1Gi"}}
    assert resources_of(written, memory="2Gi")["limits"] == {"cpu": 1, "memory": "2Gi"}
    assert resources_of({}, cpu="2") == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}


def test_devices_have_one_number_and_odd_limits_are_left_to_the_cluster() -> None:
    assert resources_of({"limits": {"a/gpu": "8"}}, a_gpu="4")["limits"] == {"a/gpu": "4"}
    assert resources_of({"limits": {"cpu": "much"}}, cpu="2")["limits"] == {"cpu": "much"}


def test_pods_in_the_network_of_their_node_still_ask_the_clusters_name_server() -> None:
    hosted: dict[str, Any] = {"spec": {"hostNetwork": True, "containers": [{"name": "main"}]}}
    assert pod_of(hosted)["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    hosted["spec"]["dnsPolicy"] = "Default"
    assert pod_of(hosted)["spec"]["dnsPolicy"] == "Default"
    assert "dnsPolicy" not in pod_of(one_container())["spec"]


def service_of(group: ReplicaGroup, job: Job | None = None) -> dict[str, Any]:
    return service_manifest(job or make_job(group), Rank(group=group, index=1, attempt=2))["spec"]  # type: ignore[no-any-return]


def test_a_service_finds_its_member_at_any_attempt_before_it_is_ready() -> None:
    spec = service_of(replace(make_group(), ports=(Port("http", 80), Port("", 90))))
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["selector"] == {
        "TrainingJobName": "demo",
        "pliant/job-uid": "job-uid",
        "TrainingJobReplicaName": "worker",
        "TrainingJobReplicaIndex": "1",
    }
    assert list(spec["ports"]) == [{"name": "http", "port": 80}, {"name": "port-90", "port": 90}]


def test_a_member_without_ports_has_a_name_all_the_same() -> None:
    assert "ports" not in service_of(make_group())


def test_a_kind_may_name_pods_services_and_labels_in_its_own_way() -> None:
    naming = Naming(pod="{group}-{job}-{index}", service="{pod}-service", labels={"pod_name": "{pod}", "nr": "{index}"})
    job = make_job(make_group(size=2, first_pod_labels={"role": "master"}), naming=naming)
    actions = actions_of(decided(job))
    pods = [action.manifest["metadata"] for action in actions if isinstance(action, CreatePod)]
    assert [pod["name"] for pod in pods] == ["worker-demo-0", "worker-demo-1"]
    assert [action.name for action in actions if isinstance(action, CreateService)] == [
        "worker-demo-0-service",
        "worker-demo-1-service",
    ]
    assert pods[1]["labels"].items() >= {"pod_name": "worker-demo-1", "nr": "1", "TrainingJobReplicaIndex": "1"}.items()
    assert [pod["labels"].get("role") for pod in pods] == ["master", None]


def test_a_pod_knows_its_whole_name_where_its_kind_wants_that_and_its_author_does_not_say_otherwise() -> None:
    naming = Naming(subdomain="{pod}")
    spec = pod_of(one_container(), naming=naming)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("demo-worker-1", "demo-worker-1")
    own = pod_of({"spec": {"subdomain": "mine", "containers": [{"name": "main"}]}}, naming=naming)["spec"]
    assert own["subdomain"] == "mine"
    assert "hostname" not in pod_of(one_container())["spec"]
