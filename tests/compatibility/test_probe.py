"""The probe notices a wrong rank, a wrong world and a wrong peer; samples are read from archives and changed little."""

from __future__ import annotations

import copy
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from pliant.kube.client import KubeClient
from tests.compatibility.archives import Archive, NotDownloaded, Origin
from tests.compatibility.samples import Object, Sample, adapt, samples_of
from tests.compatibility.trial import try_all

ARCHIVE = Archive(project="nobody/sample-operator", version="v1.0.0", folders=("examples/",))
CONTAINER = {"image": "theirs", "command": ["theirs"], "args": ["--much"]}


def job(kind: str, field: str, container: str, **sizes: int) -> Object:
    """A job of kubeflow.org as its author would write it."""
    pod = {"containers": [{**CONTAINER, "name": container}]}
    groups = {name: {"replicas": size, "template": {"spec": copy.deepcopy(pod)}} for name, size in sizes.items()}
    spec = {field: groups, "runPolicy": {"cleanPodPolicy": "None"}}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "ours"}, "spec": spec}


PYTORCH = job("PyTorchJob", "pytorchReplicaSpecs", "pytorch", Master=1, Worker=2)
TENSORFLOW = job("TFJob", "tfReplicaSpecs", "tensorflow", PS=1, Worker=2)
SWAPPED = (
    '{"cluster":{"ps":["ours-ps-0.ours:2222"],"worker":["ours-worker-1.ours:2222","ours-worker-0.ours:2222"]},'
    '"task":{"type":"ps","index":0}}'
)


def sample(manifest: Object, group: str = "", **variables: str) -> Sample:
    """What is tried of a job, whose author has set variables that contradict the operator's."""
    adapted = adapt(ARCHIVE, "examples/ours.yaml", manifest, [])
    if group:
        [groups] = [value for name, value in adapted.manifest["spec"].items() if name.endswith("ReplicaSpecs")]
        env = [{"name": name, "value": value} for name, value in variables.items()]
        groups[group] |= {"restartPolicy": "Never"}
        groups[group]["template"]["spec"]["containers"][0]["env"] = env
    return adapted


async def test_replicas_end_only_if_rank_world_and_peers_are_as_the_manifest_says(client: KubeClient) -> None:
    tried = {
        "pytorch": (sample(PYTORCH), "Succeeded", ""),
        "tensorflow": (sample(TENSORFLOW), "Succeeded", ""),
        "wrong rank": (sample(PYTORCH, "Master", RANK="1"), "Failed", "RANK 1"),
        "wrong world": (sample(PYTORCH, "Worker", WORLD_SIZE="2"), "Failed", "WORLD_SIZE 2"),
        "wrong peer": (sample(TENSORFLOW, "PS", TF_CONFIG=SWAPPED), "Failed", "answers that it is"),
    }
    ended = await try_all(client, [each for each, *_ in tried.values()], prefix="ours")
    for (name, (_, phase, told)), result in zip(tried.items(), ended, strict=True):
        assert (name, result.phase) == (name, phase), result.story
        assert told in result.story


def test_samples_that_differ_only_in_image_and_command_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_CACHE", str(tmp_path))
    with pytest.raises(NotDownloaded, match=r"sample-operator-v1\.0\.0\.zip"):
        samples_of(Origin(title="Ours", archives=(ARCHIVE,)))
    other = copy.deepcopy(PYTORCH)
    other["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"] = "another"
    experiment = {"kind": "Experiment", "metadata": {"name": "e"}, "spec": {"trialTemplate": {"trialSpec": TENSORFLOW}}}
    ARCHIVE.file.parent.mkdir()
    with ZipFile(ARCHIVE.file, "w") as archive:
        for name, content in {"a": PYTORCH, "b": other, "c": experiment, "d": {"kind": "Pod"}}.items():
            archive.writestr(f"x/sample-operator@v1.0.0/examples/{name}.yaml", yaml.dump(content))
        archive.writestr("x/sample-operator@v1.0.0/test/e.yaml", yaml.dump(PYTORCH))
    found = samples_of(Origin(title="Ours", archives=(ARCHIVE,)))
    assert [(each.path, each.kind) for each in found.tried] == [
        ("examples/a.yaml", "PyTorchJob"),
        ("examples/c.yaml", "TFJob"),
    ]
    assert found.published == 3


def test_nothing_but_image_and_command_is_changed() -> None:
    adapted = copy.deepcopy(sample(PYTORCH).manifest)
    for group in adapted["spec"]["pytorchReplicaSpecs"].values():
        [container] = group["template"]["spec"]["containers"]
        assert container["command"][:2] == ["python3", "/workspace/probe.py"]
        container |= CONTAINER
    assert adapted == PYTORCH
