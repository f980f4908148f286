"""Jobs written for the original operator: stock kubectl applies, describes and deletes them as its users did."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.golden.files import ROOT
from tests.kubectl import find_kubectl
from tests.scenarios.cluster import Site
from tests.scenarios.conftest import rather_on_real
from tests.scenarios.scene import Scene

pytestmark = [pytest.mark.kubectl, rather_on_real]

WRITTEN = ROOT / "tests" / "golden" / "aitrainingjob"
PATIENCE = 60


async def kubectl(site: Site, scene: Scene, *words: str) -> str:
    """What kubectl answers, all in one namespace."""
    program = find_kubectl()
    options = ("--kubeconfig", str(site.kubeconfig), "--cache-dir", str(site.user.home / "kube-cache"))
    process = await asyncio.create_subprocess_exec(
        program, *options, "--namespace", scene.namespace, *words, stdout=-1, stderr=-2
    )
    async with asyncio.timeout(PATIENCE):
        said = (await process.communicate())[0].decode()
    assert process.returncode == 0, f"kubectl {' '.join(words)}: {said}"
    return said


def kept(name: str, folder: Path) -> Path:
    """The file, with the pods of its job left to be looked at when it has ended."""
    text = (WRITTEN / f"{name}.in.yaml").read_text()
    assert "cleanPodPolicy: All" in text
    changed = folder / f"{name}.yaml"
    changed.write_text(text.replace("cleanPodPolicy: All", "cleanPodPolicy: None"))
    return changed


async def test_a_job_in_the_network_of_its_node_is_applied_described_and_deleted(
    site: Site, scene: Scene, tmp_path: Path
) -> None:
    file = kept("host-network", tmp_path)
    assert "created" in await kubectl(site, scene, "apply", "-f", str(file))
    assert "unchanged" in await kubectl(site, scene, "apply", "-f", str(file))
    await scene.until_phase("paddle-mnist", "Succeed")

    row = (await kubectl(site, scene, "get", "aitj", "--no-headers")).split()
    assert row[:2] == ["paddle-mnist", "Succeed"]
    described = await kubectl(site, scene, "describe", "aitj", "paddle-mnist")
    assert "TrainingJobSucceed" in described
    assert "Host Network:" in described

    pod = scene.pods["paddle-mnist-trainer-0"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"], pod["restartPolicy"]) == (True, "ClusterFirstWithHostNet", "Never")
    assert scene.services["paddle-mnist-trainer-0"]["spec"]["clusterIP"] == "None"
    said = dict(line.split("=", 1) for line in (await scene.log("paddle-mnist-trainer-0")).splitlines() if "=" in line)
    here = f"paddle-mnist-trainer-0.{scene.namespace}"
    assert said["TRAINER_HOSTS"] == f"{here}:24446"
    assert (said["TRAININGJOB_SERVICE"], said["TRAININGJOB_PORTS"]) == (here, "24446")

    await kubectl(site, scene, "delete", "-f", str(file), "--wait=false")
    await scene.until_gone()


async def test_a_job_with_nothing_in_most_of_its_fields_gets_its_pods(site: Site, scene: Scene) -> None:
    file = WRITTEN / "written-by-a-program.in.yaml"
    await kubectl(site, scene, "create", "-f", str(file))
    await scene.until(lambda: len(scene.pods) == 2, "two pods")
    limits = scene.pods["generated-worker-0"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["memory"] in (1 << 30, str(1 << 30), "1Gi")  # servers differ in how they write a number
    assert sorted(scene.services) == ["generated-worker-0", "generated-worker-1"]
    await kubectl(site, scene, "delete", "-f", str(file), "--wait=false")
    await scene.until_gone()


async def test_a_field_that_does_not_exist_is_dropped_with_a_warning_where_kubectl_is_told_to_warn(
    site: Site, scene: Scene, tmp_path: Path
) -> None:
    text = (WRITTEN / "host-network.in.yaml").read_text().replace("      replicas: 1", "      colour: red")
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    said = await kubectl(site, scene, "create", "--validate=warn", "-f", str(file))
    assert 'unknown field "spec.replicaSpecs.trainer.colour"' in said
    await scene.until_phase("paddle-mnist", "Succeed")
    assert "colour" not in scene.job("paddle-mnist")["spec"]["replicaSpecs"]["trainer"]
