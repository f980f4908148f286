"""The samples of an origin, each changed only in image and command, and in what no cluster but their author's has."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pliant.frontends import FRONTENDS
from tests.compatibility.archives import Archive, Origin
from tests.quickyaml import documents

Object = dict[str, Any]

FOLDER = "/workspace"
"""Where pods find the probe: samples of Paddle work in a folder of this name."""
PYTHON = "python3"
MASTER = "dlrover-master"
WAITING = "sshd"
"""A worker of an MPIJob with this program, or none, only waits for its launcher, and is left alone."""
STAYING = {"TFJob": "ps", "ElasticJob": "ps", "PaddleJob.fluid": "PSERVER"}
"""The servers that never end by themselves."""
LINGER = "5"
"""Seconds that a job lasts which is to be scaled meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A job of an archive, and the job that is tried."""

    archive: Archive
    path: str
    kind: str
    """Of the probe: three kinds are named PaddleJob."""
    manifest: Object
    sizes: dict[str, int]
    claims: tuple[str, ...] = ()
    """Volumes that the job expects to exist."""
    plans: tuple[Object, ...] = ()
    """ScalePlans of the same folder for this job."""
    changes: tuple[str, ...] = ()
    """What else was changed."""
    also: list[str] = field(default_factory=list)
    """Where the same job is published once more, image and command apart."""

    @property
    def groups(self) -> list[str]:
        """The groups of replicas, without a master."""
        return [name for name in groups_of(self.manifest["spec"]) if name != MASTER] or list(self.sizes)

    @property
    def group(self) -> str:
        """The API group of the job."""
        return str(self.manifest["apiVersion"]).partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All samples of an origin."""

    tried: list[Sample]
    published: int
    """Manifests that differ as they are published."""
    not_served: list[str]
    """Those of versions that the latest releases of their own operators do not serve either."""


def samples_of(origin: Origin) -> Samples:
    """Every job of the archives; of those that differ only in image and command, the newest."""
    tried: dict[str, Sample] = {}
    published, not_served = set(), set()
    for archive in origin.archives:
        plans = [found for _, found in _objects(archive) if found["kind"] == "ScalePlan"]
        for path, found in _objects(archive):
            if found["kind"] == "ScalePlan":
                continue
            if "alpha" in found["apiVersion"] and found["kind"] == "MPIJob":
                not_served.add(f"{archive.project} {archive.version} {path}")
                continue
            published.add(json.dumps(found, sort_keys=True))
            sample = adapt(archive, path, found, plans)
            namespace = found["metadata"].get("namespace")
            same = tried.setdefault(json.dumps([namespace, sample.manifest], sort_keys=True), sample)
            if same is not sample:
                same.also.append(f"{archive.version} {path}")
    return Samples(tried=list(tried.values()), published=len(published), not_served=sorted(not_served))


def _objects(archive: Archive) -> Iterator[tuple[str, Object]]:
    """The jobs and plans of an archive; Katib's experiments have a job inside, and name it after themselves."""
    kinds = {kind for _, kind in FRONTENDS} | {"ScalePlan"}
    for path, text in archive.texts():
        for found in documents(text):
            if isinstance(found, dict) and found.get("kind") == "Experiment":
                job = found["spec"].get("trialTemplate", {}).get("trialSpec", {})
                found = {**job, "metadata": {"name": found["metadata"]["name"]}}
            if isinstance(found, dict) and found.get("kind") in kinds:
                yield path, found


def adapt(archive: Archive, path: str, original: Object, plans: list[Object]) -> Sample:
    """The job that is tried instead of an original one."""
    manifest = _without_namespace(copy.deepcopy(original))  # each has a namespace of its own
    group = str(manifest["apiVersion"]).partition("/")[0]
    if group == "paddlepaddle.org":
        return _adapt_fluid(archive, path, manifest)
    kind = f"{manifest['kind']}.batch" if group.startswith("batch.") else str(manifest["kind"])
    own = tuple(_without_namespace(each) for each in plans if each["spec"]["ownerJob"] == manifest["metadata"]["name"])
    groups = groups_of(manifest["spec"])
    sizes = _sizes(kind, groups)
    claims: set[str] = set()
    changes: set[str] = set()
    for name, replicas in groups.items():
        pod = replicas["template"]["spec"]
        claims |= {each["persistentVolumeClaim"]["claimName"] for each in _volumes(pod, "persistentVolumeClaim")}
        changes |= _replace_volumes(pod)
        for container in pod["containers"]:
            _replace_program(container, kind, name, sizes, manifest["spec"])
            if own and "command" in container:
                container["command"] += ["--linger", LINGER]
    return Sample(
        archive=archive,
        path=path,
        kind=kind,
        manifest=manifest,
        sizes=sizes,
        claims=tuple(sorted(claims)),
        plans=own,
        changes=tuple(sorted(changes)),
    )


def groups_of(spec: Object) -> Object:
    """The replicas by the names of their groups; of Paddle, they are fields of the spec itself."""
    nested = [value for name, value in spec.items() if name.lower().endswith("replicaspecs")]
    return nested[0] if nested else {name: spec[name] for name in ("ps", "worker", "heter") if name in spec}


def _volumes(pod: Object, source: str) -> list[Object]:
    return [volume for volume in pod.get("volumes", []) if source in volume]


def _replace_volumes(pod: Object) -> set[str]:
    """Replace volumes that only a cluster of the sample's author has."""
    changes = set()
    for source in ("nfs", "hostPath"):
        for volume in _volumes(pod, source):
            del volume[source]
            volume["emptyDir"] = {}
            changes.add(f"an emptyDir instead of the {source} volume")
    return changes


def _sizes(kind: str, groups: Object) -> dict[str, int]:
    """The replicas of each group; those that DLRover's master chooses are left out."""
    if kind == "ElasticJob":
        return {name: each["replicas"] for name, each in groups.items() if each.get("replicas")}
    return {name: each.get("replicas", 1) for name, each in groups.items()}


def _replace_program(container: Object, kind: str, group: str, sizes: dict[str, int], spec: Object) -> None:
    if group == MASTER:
        container.pop("image", None)  # so that it is Pliant's
        return
    container["image"] = "probe"
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if kind == "MPIJob" and group == "Worker" and (not words or WAITING in words[0]):
        return
    container.pop("args", None)
    container["command"] = _command(kind, group, sizes)
    if kind == "MPIJob":
        container["command"] += ["--slots", str(spec.get("slotsPerWorker", 1))]


def _command(kind: str, group: str, sizes: dict[str, int]) -> list[str]:
    words = [PYTHON, f"{FOLDER}/probe.py", "--kind", kind, "--group", group, "--sizes", json.dumps(sizes)]
    return [*words, "--stay", STAYING[kind]] if kind in STAYING else words


def _adapt_fluid(archive: Archive, path: str, manifest: Object) -> Sample:
    """Servers and trainers of the first operators run one command, which is a text for a shell."""
    spec = manifest["spec"]
    sizes = {role: int(spec[role]["min-instance"]) for role in ("pserver", "trainer")}
    kind = "PaddleJob.fluid"
    spec["image"] = "probe"
    words = _command(kind, "any", sizes)
    spec["trainer"]["entrypoint"] = " ".join(f"'{word}'" if "{" in word else word for word in words)
    return Sample(archive=archive, path=path, kind=kind, manifest=manifest, sizes=sizes)


def _without_namespace(manifest: Object) -> Object:
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "namespace"}
    return {**manifest, "metadata": metadata}
