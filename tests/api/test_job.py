"""Jobs of a temporary cluster: what can be asked of them, and what can be done to them."""

from __future__ import annotations

from pathlib import Path

import pytest

import pliant
from pliant import Cluster, PhaseUpdate, ResizeUpdate, RestartUpdate
from pliant.api.options import SelectionOptions
from tests.api.jobs import DOOMED, STEADY, TRAINING, make_job


def test_an_elastic_job_is_scaled_suspended_resumed_and_deleted(pliant_cluster: Cluster) -> None:
    job = pliant_cluster.submit(make_job("elastic", STEADY, minReplicas=1, maxReplicas=3))
    phases = []
    for update in job.follow():
        if isinstance(update, PhaseUpdate):
            phases.append(update.phase)
        if phases[-1] == "Running":
            break
    assert phases[0] == "Pending"
    assert job.scale(5, wait=True) == 3
    assert [(group.name, group.size, group.running) for group in job.state.groups] == [("worker", 3, 3)]
    assert next(iter(job.follow_logs(rank=2))) == "started"
    job.suspend(wait=True)
    assert job.phase == "Suspended"
    with pytest.raises(TimeoutError, match=r"elastic: not finished after 0.1s; its phase is Suspended"):
        job.wait(timeout=0.1)
    job.resume(wait=True)
    assert {update.sizes["worker"] for update in _first_updates(job) if isinstance(update, ResizeUpdate)} == {3}
    job.delete(wait=True)
    with pytest.raises(pliant.UserError, match="elastic was deleted"):
        job.why()


def _first_updates(job: pliant.Job) -> list[pliant.JobUpdate]:
    """Return the updates until the job runs again."""
    updates = []
    for update in job.follow():
        updates.append(update)
        if isinstance(update, PhaseUpdate) and update.phase == "Running" and len(updates) > 3:
            break
    return updates


def test_restarts_and_the_end_come_with_their_causes(pliant_cluster: Cluster) -> None:
    job = pliant_cluster.submit(make_job("doomed", DOOMED, restartPolicy="OnFailure", restartLimit=1))
    updates = list(job.follow())
    [restart] = [update for update in updates if isinstance(update, RestartUpdate)]
    assert (restart.reason, restart.group) == ("Restarting", "worker")
    assert restart.causes == ("worker-0 exited with code 3: no data",)
    assert isinstance(updates[-1], PhaseUpdate)
    assert (updates[-1].phase, updates[-1].is_final) == ("Failed", True)
    with pytest.raises(pliant.JobFailed) as caught:
        job.wait(check=True)
    assert (caught.value.exit_code, caught.value.last_lines) == (3, ("no data",))
    assert job.root_cause is not None
    assert job.root_cause.attempt == 1
    assert job.why().phase == "Failed"


def test_a_finished_job_can_be_run_again_under_its_name(
    pliant_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    other = pliant_cluster.submit(make_job("other", STEADY))
    for number in range(2):
        job = pliant_cluster.run(make_job("again", f"echo run {number}"), timeout=60)
        assert (job.phase, job.logs(rank=0)) == ("Succeed", f"run {number}\n")
    assert "started" not in capsys.readouterr().out, "logs of other jobs are not shown"
    assert sorted(each.name for each in pliant_cluster.list_jobs()) == ["again", "other"]
    with pytest.raises(pliant.UserError, match="job `other` already exists"):
        pliant_cluster.run(make_job("other", TRAINING))
    assert pliant_cluster.get("other").manifest["metadata"]["uid"] == other.manifest["metadata"]["uid"]


def test_jobs_are_found_by_name_or_reported_missing(pliant_cluster: Cluster) -> None:
    jobs = pliant_cluster.submit_all([make_job("first", TRAINING), make_job("second", TRAINING)])
    assert [job.name for job in jobs] == ["first", "second"]
    assert [job.wait(60).phase for job in jobs] == ["Succeed", "Succeed"]
    assert pliant_cluster.get("aitrainingjob/first").logs(rank=0).endswith("worker 0\n")
    with pytest.raises(pliant.UserError, match="did you mean `first`"):
        pliant_cluster.get("frist")
    with pytest.raises(pliant.UserError, match=r"submit\(\) takes one job, found 2"):
        pliant_cluster.submit([make_job("first", TRAINING), make_job("second", TRAINING)])


def test_jobs_of_a_running_cluster_are_selected_by_its_kubeconfig(pliant_cluster: Cluster) -> None:
    selection: SelectionOptions = {"kubeconfig": pliant_cluster.kubeconfig, "namespace": pliant_cluster.namespace}
    job = pliant.submit(make_job("remote", TRAINING), **selection)
    assert job.wait(timeout=60, check=True).succeeded
    assert pliant.get("remote", **selection).logs(rank=0).endswith("worker 0\n")
    assert [each.name for each in pliant.list_jobs(**selection)] == ["remote"]
    assert "remote: Succeed, AITrainingJob" in repr(job)


def test_a_program_is_sent_to_a_running_cluster_with_its_modules(
    pliant_cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import os, part\nprint(__file__, part.NAME, os.environ['RATE'], flush=True)\n")
    (tmp_path / "part.py").write_text("NAME = 'part'\n")
    selection: SelectionOptions = {"kubeconfig": pliant_cluster.kubeconfig, "namespace": pliant_cluster.namespace}
    with pytest.raises(pliant.UserError, match="image= is required"):
        pliant.submit(tmp_path / "train.py", **selection)
    job = pliant.submit(tmp_path / "train.py", workers=2, image="any", env={"RATE": "0.1"}, **selection)
    assert job.wait(timeout=60, check=True).succeeded
    assert job.logs(rank=1) == "/pliant/code/train.py part 0.1\n"
    assert capsys.readouterr() == ("", "")
    again = pliant.submit(tmp_path / "train.py", image="any", env={"RATE": "0.2"}, replace=True, **selection)
    assert again.wait(timeout=60, check=True).succeeded
    assert again.logs(rank=0) == "/pliant/code/train.py part 0.2\n"
