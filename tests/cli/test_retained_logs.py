"""What replicas wrote can be read after their pods are deleted, and `pliant run` writes it to files."""

from __future__ import annotations

from pathlib import Path

from pliant.cli.local.replica_log_files import ReplicaLogFiles
from tests.cli.asking import said
from tests.cli.ordinary_user import OrdinaryUser

JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {{name: {name}}}
spec:
  replicaSpecs:
    worker:
      replicas: 2
      restartPolicy: OnFailure
      restartScope: Pod
      restartLimit: 1
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: aitj-worker
              image: any
              command: [sh, -c, {command!r}]
"""
DOOMED = (
    "echo attempt $TRAININGJOB_REPLICA_RESTARTCOUNT; [ $TRAININGJOB_REPLICA_INDEX = 0 ] && exec sleep 1000; "
    "echo no data; exit 3"
)


def test_the_logs_of_all_attempts_outlive_the_pods_of_a_job(cluster: OrdinaryUser) -> None:
    file = cluster.write("lost.yaml", JOB.format(name="lost", command=DOOMED))
    said(cluster, "submit", file, "--wait", code=1)
    assert said(cluster, "logs", "lost").out.splitlines() == [
        "worker-0             │ attempt 0",
        "worker-1 (attempt 0) │ attempt 0",
        "worker-1 (attempt 0) │ no data",
        "worker-1             │ attempt 1",
        "worker-1             │ no data",
    ]
    selected = {
        ("--attempt", "0", "--rank", "1", "--tail", "1"): "no data\n",
        ("--rank", "0", "--follow"): "attempt 0\n",
        ("--rank", "1", "--previous"): "attempt 0\nno data\n",
    }
    for options, text in selected.items():
        assert said(cluster, "logs", "lost", "--no-prefix", *options).out == text, options
    assert "--attempt" in said(cluster, "logs", "lost", "--attempt", "7", code=1).err
    assert "→ read the complete logs: pliant logs lost" in said(cluster, "why", "lost").out
    assert "Logs:          pliant logs lost" in said(cluster, "describe", "lost").out
    said(cluster, "delete", "lost", "--wait")
    said(cluster, "submit", file, "--replace", "--wait", code=1)
    assert said(cluster, "logs", "lost", "--attempt", "1").out.count("no data") == 1


def test_a_run_writes_the_log_of_each_attempt_to_a_file(user: OrdinaryUser) -> None:
    folder = user.home / "deep" / "logs"
    file = user.write("job.yaml", JOB.format(name="lost", command="printf 'a\\r%3000s' x; " + DOOMED))
    done = said(user, "run", file, "--quiet", "--logs-dir", str(folder), code=1)
    assert done.out == ""
    written = {path.name: path.read_text()[3002:] for path in folder.iterdir()}
    assert written == {
        "worker-0.log": "attempt 0\n",
        "worker-1.log": "attempt 0\nno data\n",
        "worker-1.1.log": "attempt 1\nno data\n",
    }


def test_a_log_that_a_full_disk_cuts_off_is_reported(tmp_path: Path) -> None:
    (tmp_path / "worker-0.log").symlink_to("/dev/full")
    files = ReplicaLogFiles(tmp_path)
    files.append("worker-0", 0, "", b"lost")
    files.append("worker-1", 2, "sidecar", b"kept")
    assert files.problem.endswith("worker-0.log: No space left on device; the logs there are incomplete")
    assert (tmp_path / "worker-1.2.sidecar.log").read_bytes() == b"kept"


def test_a_directory_for_logs_that_cannot_be_written_is_refused_before_anything_starts(user: OrdinaryUser) -> None:
    file = user.write("job.yaml", JOB.format(name="lost", command=DOOMED))
    done = said(user, "run", file, "--logs-dir", "/proc/logs", code=1)
    assert "error: --logs-dir: cannot write to /proc/logs: No such file or directory; choose another" in done.err
