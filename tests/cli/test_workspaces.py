"""A job finds its program beside its file, with `pliant run` and `pliant submit`, wherever the cluster was started."""

from __future__ import annotations

import os

from tests.cli.asking import said
from tests.cli.ordinary_user import NOBODY, OrdinaryUser
from tests.cli.test_run import job


def test_a_relative_path_means_the_same_to_run_and_to_submit(cluster: OrdinaryUser) -> None:
    folder = cluster.home / "project"
    folder.mkdir()
    (folder / "train.sh").write_text("pwd\n")
    (folder / "job.yaml").write_text(job("sh train.sh", name="nearby"))
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    file = str(folder / "job.yaml")
    assert said(cluster, "run", file).out == f"worker-0 │ {folder}\n"
    said(cluster, "submit", file, "--wait")
    assert said(cluster, "logs", "nearby").out == f"worker-0 │ {folder}\n"
    (folder / "train.sh").unlink()
    failed = said(cluster, "submit", file, "--replace", "--wait", code=1)
    assert "nearby failed" in failed.err
    assert f"programs start in {folder};" in " ".join(said(cluster, "why", "nearby").out.split())
    said(cluster, "submit", file, "--replace", "--wait", "--workspace", "/", code=1)
    assert "programs start in /;" in said(cluster, "why", "nearby").out
