"""The commands about jobs say and do the same on a real cluster as on the embedded one."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tests.cli.ordinary_user import Ended
from tests.scenarios.cluster import Site
from tests.scenarios.conftest import rather_on_real
from tests.scenarios.jobs import FOREVER, group, job, per_rank
from tests.scenarios.scene import Scene


class Terminal:
    """Where an ordinary user types commands about the jobs of one scene."""

    def __init__(self, site: Site, scene: Scene) -> None:
        self._site = site
        self._where = ("--kubeconfig", str(site.kubeconfig), "--namespace", scene.namespace)

    async def run(self, *words: str, code: int = 0) -> Ended:
        done = await asyncio.to_thread(self._site.user.run, *words, *self._where)
        assert done.code == code, f"{words}: {done.out}{done.err}"
        assert "Traceback" not in done.err
        return done


@rather_on_real  # tests/cli/test_about_jobs.py
async def test_a_job_is_listed_scaled_rested_resumed_and_deleted(site: Site, scene: Scene) -> None:
    terminal = Terminal(site, scene)
    await scene.submit(job("t", {"worker": group(FOREVER, 2, minReplicas=1, maxReplicas=3)}))
    grown = await terminal.run("scale", "t", "9", "--wait")
    assert "t: worker 2 → 3 (bounds 1–3); 9 requested" in grown.out
    assert "cluster:" not in grown.err  # it was named
    listed = (await terminal.run("get")).out
    assert re.search(r"^t +AITrainingJob +Running +3/3 +0 +worker 3 \[1–3\]", listed, re.MULTILINE)
    page = (await terminal.run("describe", "t")).out
    assert re.search(r"worker-2 +t-worker-2 +\S+ +0 +Running", page)
    for index in range(3):
        scene.excuse(f"t-worker-{index}")
    assert "t: Suspended, all pods are deleted" in (await terminal.run("suspend", "t", "--wait")).out
    assert "pliant resume t" in (await terminal.run("why", "t")).out
    assert "t: Running" in (await terminal.run("resume", "t", "--wait")).out
    assert "all pods are deleted" in (await terminal.run("delete", "t", "--wait")).out
    assert "job `t` not found in namespace" in (await terminal.run("why", "t", code=2)).err


@pytest.mark.on_real
async def test_a_cluster_without_metrics_is_told_so(site: Site, scene: Scene, ground: str) -> None:
    done = await Terminal(site, scene).run("top", code=1 if ground == "real" else 0)
    assert ("the cluster does not serve metrics.k8s.io" in done.err) is (ground == "real")


@pytest.mark.deep  # tests/cli/test_about_jobs.py
async def test_files_are_submitted(site: Site, scene: Scene) -> None:
    terminal = Terminal(site, scene)
    short = job("t", {"worker": group("echo hi", 2)}, cleanPodPolicy="None")
    notes = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": {"a": "b"}}
    file = site.user.write("two.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [short, notes]}))
    done = await terminal.run("submit", file, "--wait")
    assert done.out.splitlines()[0] == "configmap/notes: created"
    assert done.err == "✔ t succeeded\n"
    done = await terminal.run("submit", file, "--replace", "--follow")
    assert done.out.splitlines()[0] == "configmap/notes: updated"
    assert {"worker-0 │ hi", "worker-1 │ hi"} <= set(done.out.splitlines())


@pytest.mark.deep  # tests/cli/test_about_jobs.py
async def test_a_failure_is_explained(site: Site, scene: Scene) -> None:
    terminal = Terminal(site, scene)
    script = per_rank(FOREVER, "echo no data; exit 3")
    await scene.submit(job("t", {"worker": group(script, 2)}, cleanPodPolicy="None"))
    await scene.until(lambda: scene.status("t").get("phase") == "Failed", "the failure")
    told = json.loads((await terminal.run("why", "t", "-o", "json")).out)
    assert told["phase"] == "Failed"
    assert told["reasons"][0]["text"].startswith("Root cause: worker-1 exited with code 3 (pod t-worker-1 on ")
    assert told["reasons"][0]["logLines"] == ["no data"]
    assert "worker-1 │ no data" in (await terminal.run("logs", "t", "--rank", "1")).out
    assert "worker-1 │ no data" in (await terminal.run("logs", "t", "--follow", "--rank", "1")).out
    events = (await terminal.run("events", "t")).out
    assert re.search(r"Warning +Failed +AITrainingJob t +worker-1 exited with code 3", events)
