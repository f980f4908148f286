"""What tests about jobs ask of `pliant`, and the jobs they ask about."""

from __future__ import annotations

import signal
import threading

from pliant.cli.main import EXIT_BROKEN_PIPE
from tests.cli.ordinary_user import Ended, OrdinaryUser

PATIENCE = 20.0
JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {{name: {name}}}
spec:
  cleanPodPolicy: None
  replicaSpecs:
    worker:
      replicas: 2
      minReplicas: 1
      maxReplicas: 4
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
              {more}
"""
STEADY = "echo hello from $TRAININGJOB_REPLICA_INDEX; exec sleep 1000"
DOOMED = (
    "echo attempt $TRAININGJOB_REPLICA_RESTARTCOUNT; [ $TRAININGJOB_REPLICA_INDEX = 0 ] && exec sleep 1000; "
    "echo no data; exit 3"
)


LASTING = ("up", "run", "operator")
"""Commands that start processes: each is one itself. The others are called."""


def submit(user: OrdinaryUser, name: str, command: str = STEADY, more: str = "") -> None:
    """Create a job."""
    said(user, "submit", user.write(f"{name}.yaml", JOB.format(name=name, command=command, more=more)))


def said(user: OrdinaryUser, *words: str, code: int = 0) -> Ended:
    done = user.run(*words) if words[0] in LASTING else user.call(*words)
    assert done.code == code, f"{words}: {done.out}{done.err}"
    assert "Traceback" not in done.err
    return done


def wait_for(user: OrdinaryUser, name: str, words: str) -> None:
    """Wait until a line of `pliant get --watch` about the job contains these words."""
    _follow(user, words, "get", name, "--watch")


def wait_for_log(user: OrdinaryUser, name: str, words: str, *options: str) -> str:
    """Wait until a member of the job has written a line with these words; returns the line."""
    *_, last = _follow(user, words, "logs", name, "--follow", "--no-prefix", *options).splitlines()
    return last


def _follow(user: OrdinaryUser, words: str, *command: str) -> str:
    limit = threading.Timer(PATIENCE, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    limit.start()
    try:
        done = user.call(*command, until=words)
    finally:
        limit.cancel()
    assert done.code == EXIT_BROKEN_PIPE, f"never said {words!r}: {done.out}{done.err}"
    return done.out
