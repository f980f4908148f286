"""One message of every reason, and its English text; docs/reasons.md shows them."""

from __future__ import annotations

from pliant.model.messages import BOUNDS_EDITED, Message, MessageReason, message

R = MessageReason
EXITED = message(R.REPLICA_EXITED, replica="worker-1", code=3, message="no data")
STUCK = message(R.BLOCKED_BY_NODE, pod="demo-worker-1", node="n1")
GROWS = message(R.GROUP_RESIZED, group="worker", before=2, after=4, requestedBy="scale")
BY_AUTOSCALER = message(R.GROUP_RESIZED, group="worker", before=2, after=4, requestedBy="autoscaler", message="1 fits")
BOUNDED = message(R.GROUP_RESIZED, group="ps", before=3, after=2, requestedBy=BOUNDS_EDITED)
FIXED = message(R.GROUP_SIZE_FIXED, group="worker", size=2, rejected=4, cause="set by annotation pliant/resize")
JOINS = message(R.MEMBER_JOINS, member="worker-4", rank=2)
REPLACES = message(R.MEMBER_REPLACES, member="worker-4", replaced="worker-1")
COUNT = message(R.MEMBER_COUNT, group="worker", running=2, wanted=3, finished=1)
NAMES = [message(R.REPLICA, replica=f"worker-{index}") for index in range(5)]

EXAMPLES: dict[MessageReason, tuple[Message, str]] = {
    R.JOB_ACCEPTED: (message(R.JOB_ACCEPTED), "job accepted"),
    R.STARTED_BY_OTHER_OPERATOR: (message(R.STARTED_BY_OTHER_OPERATOR), "started by another operator"),
    R.FINISHED_BY_OTHER_OPERATOR: (message(R.FINISHED_BY_OTHER_OPERATOR), "finished by another operator"),
    R.REPORTED_BY_OTHER_OPERATOR: (
        message(R.REPORTED_BY_OTHER_OPERATOR, message="PyTorchJob ended"),
        "PyTorchJob ended",
    ),
    R.NO_REPLICAS: (message(R.NO_REPLICAS), "the job has no replicas"),
    R.WAITING_FOR_REPLICAS: (
        message(R.WAITING_FOR_REPLICAS, NAMES, running=3, total=8),
        "3 of 8 replicas are running; waiting for worker-0, worker-1, worker-2 and 2 more",
    ),
    R.ALL_REPLICAS_RUNNING: (message(R.ALL_REPLICAS_RUNNING), "all replicas are running"),
    R.SOME_REPLICAS_FINISHED: (
        message(R.SOME_REPLICAS_FINISHED, running=3, total=4, finished=1),
        "3 of 4 replicas are running, 1 finished",
    ),
    R.RUNNING_WITH_FAILURES: (
        message(R.RUNNING_WITH_FAILURES, [EXITED]),
        "running with failed replicas: worker-1 exited with code 3: no data",
    ),
    R.WAITING_FOR_MASTER: (message(R.WAITING_FOR_MASTER), "the master is running and has not requested replicas yet"),
    R.MEMBERS_RUNNING: (
        message(R.MEMBERS_RUNNING, [COUNT]),
        "the master is running; running replicas: 2 of 3 worker (1 finished)",
    ),
    R.MEMBER_COUNT: (message(R.MEMBER_COUNT, group="ps", running=1, wanted=2), "1 of 2 ps"),
    R.DEGRADED: (
        message(R.DEGRADED, [message(R.NODE_FAULTY, node="n1", fault="is not ready")]),
        "node n1 is not ready",
    ),
    R.REPLICA: (NAMES[0], "worker-0"),
    R.FAILED_CREATE: (
        message(R.FAILED_CREATE, object="demo-worker-1", error="exceeded quota"),
        "cannot create demo-worker-1: exceeded quota",
    ),
    R.NAME_CONFLICT: (
        message(
            R.NAME_CONFLICT,
            kind="Pod",
            object="demo-worker-1",
            problem="belongs to PyTorchJob demo (uid 4f1c)",
            ownerKind="PyTorchJob",
            ownerName="demo",
            ownerUid="4f1c",
        ),
        "Pod demo-worker-1 belongs to PyTorchJob demo (uid 4f1c): delete it, or give this job another name",
    ),
    R.REPLICA_NOT_STARTING: (
        message(R.REPLICA_NOT_STARTING, replica="worker-1", problem="ErrImagePull: not found"),
        "worker-1: ErrImagePull: not found",
    ),
    R.NODE_FAULTY: (message(R.NODE_FAULTY, node="n1", fault="is gone"), "node n1 is gone"),
    R.PODS_NOT_TERMINATING: (
        message(R.PODS_NOT_TERMINATING, [STUCK]),
        "waiting for pods to terminate: demo-worker-1 (node n1 has not confirmed the termination)",
    ),
    R.BLOCKED_BY_FINALIZER: (
        message(R.BLOCKED_BY_FINALIZER, pod="demo-worker-1", finalizers="example.com/hold"),
        "demo-worker-1 (finalizer example.com/hold)",
    ),
    R.BLOCKED_BY_NODE: (STUCK, "demo-worker-1 (node n1 has not confirmed the termination)"),
    R.BLOCKED: (message(R.BLOCKED, pod="demo-worker-1"), "demo-worker-1 (reason unknown)"),
    R.CONTAINER_NOT_CREATED: (
        message(R.CONTAINER_NOT_CREATED, pod="demo-worker-1", node="n1", container="trainer", problem="ErrImagePull"),
        "demo-worker-1 on n1 cannot create container trainer: ErrImagePull",
    ),
    R.REPLICA_EXITED: (EXITED, "worker-1 exited with code 3: no data"),
    R.REPLICA_KILLED: (
        message(R.REPLICA_KILLED, replica="worker-1", code=137, signal="SIGKILL"),
        "worker-1 was killed by SIGKILL (exit code 137)",
    ),
    R.REPLICA_OUT_OF_MEMORY: (
        message(R.REPLICA_OUT_OF_MEMORY, replica="worker-1", code=137),
        "worker-1 ran out of memory (OOMKilled, exit code 137)",
    ),
    R.REPLICA_NOT_STARTED: (
        message(R.REPLICA_NOT_STARTED, replica="worker-1", code=128, cause="StartError", message="no such file"),
        "worker-1 could not be started (StartError): no such file",
    ),
    R.REPLICA_FAILED: (message(R.REPLICA_FAILED, replica="worker-1"), "worker-1 failed"),
    R.REPLICA_LOST: (
        message(R.REPLICA_LOST, replica="worker-1", node="n1", fault="is gone"),
        "worker-1 was lost: node n1 is gone",
    ),
    R.REPLICA_DELETED: (message(R.REPLICA_DELETED, replica="worker-1"), "worker-1 was deleted"),
    R.REPLICA_DISRUPTED: (
        message(R.REPLICA_DISRUPTED, replica="worker-1", disruption="was evicted"),
        "worker-1 was evicted",
    ),
    R.RESTARTING: (
        message(R.RESTARTING, [EXITED], group="worker", used=1, limit=3, scope="All"),
        "worker-1 exited with code 3: no data; restart 1 of 3 of worker, scope All",
    ),
    R.DISRUPTED_REPLACED: (
        message(R.DISRUPTED_REPLACED, [message(R.REPLICA_DELETED, replica="worker-1")]),
        "worker-1 was deleted; replaced without counting a restart",
    ),
    R.RESTART_LIMIT_REACHED: (
        message(R.RESTART_LIMIT_REACHED, [EXITED], group="worker", limit=3),
        "worker-1 exited with code 3: no data; worker has used its 3 restarts",
    ),
    R.JOB_RESTART_LIMIT_REACHED: (
        message(R.JOB_RESTART_LIMIT_REACHED, [EXITED], limit=1),
        "worker-1 exited with code 3: no data; the job has used its 1 restart",
    ),
    R.PROGRAM_CANNOT_START: (
        message(R.PROGRAM_CANNOT_START, [EXITED], count=3),
        (
            "worker-1 exited with code 3: no data; "
            "the program cannot start: it ended this way 3 times within 2s of its start"
        ),
    ),
    R.MASTER_IDLE: (message(R.MASTER_IDLE), "the master has not requested replicas; restarting it"),
    R.TRAINING_COMPLETED: (message(R.TRAINING_COMPLETED), "training completed"),
    R.ALL_REPLICAS_SUCCEEDED: (message(R.ALL_REPLICAS_SUCCEEDED), "all replicas succeeded"),
    R.MASTER_DID_NOT_END: (message(R.MASTER_DID_NOT_END), "all replicas succeeded, but the master did not end the job"),
    R.END_REQUESTED: (message(R.END_REQUESTED, message="a larger job needs the GPUs"), "a larger job needs the GPUs"),
    R.REPLICAS_FAILED: (message(R.REPLICAS_FAILED, [EXITED]), "worker-1 exited with code 3: no data"),
    R.COMPLETE_POLICY_NOT_MET: (
        message(R.COMPLETE_POLICY_NOT_MET, [EXITED]),
        "all replicas have terminated without meeting the completePolicy: worker-1 exited with code 3: no data",
    ),
    R.DEADLINE_EXCEEDED: (message(R.DEADLINE_EXCEEDED, limit="1:00:00"), "not completed within 1:00:00 of the start"),
    R.START_LIMIT_EXCEEDED: (
        message(R.START_LIMIT_EXCEEDED, [message(R.NO_REPLICAS)], limit="0:10:00"),
        "not all replicas were running within 0:10:00 (startLimit): the job has no replicas",
    ),
    R.TIME_LIMIT_EXCEEDED: (message(R.TIME_LIMIT_EXCEEDED, limit="1:00:00"), "ran for 1:00:00 (timeLimit)"),
    R.WAITING_FOR_TERMINATION: (
        message(
            R.WAITING_FOR_TERMINATION,
            [message(R.TRAINING_COMPLETED), message(R.PODS_NOT_TERMINATING, [message(R.BLOCKED, pod="demo-ps-0")])],
        ),
        "training completed; waiting for pods to terminate: demo-ps-0 (reason unknown)",
    ),
    R.SUSPENDING: (message(R.SUSPENDING), "deleting pods; timeLimit is paused"),
    R.CHECKPOINT_REQUESTED: (
        message(R.CHECKPOINT_REQUESTED, NAMES[2:4], request=1, seconds=30, cause="Resized"),
        "asking worker-2, worker-3 to save the state within 30s before the resize (checkpoint request 1)",
    ),
    R.CHECKPOINT_SAVED: (
        message(R.CHECKPOINT_SAVED, NAMES[2:4], request=1, seconds="1.2"),
        "worker-2, worker-3 saved the state within 1.2s (checkpoint request 1)",
    ),
    R.WAITING_FOR_CHECKPOINT: (
        message(R.WAITING_FOR_CHECKPOINT, NAMES[2:4]),
        "waiting for worker-2, worker-3 to save the state",
    ),
    R.SUSPENDED: (
        message(R.SUSPENDED, [STUCK], pods=1),
        "suspended; waiting for 1 pod to terminate: demo-worker-1 (node n1 has not confirmed the termination)",
    ),
    R.RESUMED: (message(R.RESUMED), "resumed"),
    R.GROUPS_RESIZED: (
        Message(R.GROUPS_RESIZED, {"restarts": 1}, (BY_AUTOSCALER, BOUNDED)),
        "resizing worker from 2 to 4, ps from 3 to 2 (autoscaler: 1 fits and bounds were edited); all replicas restart",
    ),
    R.GROUP_RESIZED: (GROWS, "worker from 2 to 4"),
    R.RESIZE_REJECTED: (
        Message(R.RESIZE_REJECTED, {}, (FIXED,)),
        "worker keeps size 2, size 4 is rejected: set by annotation pliant/resize",
    ),
    R.GROUP_SIZE_FIXED: (FIXED, "worker keeps size 2, size 4 is rejected: set by annotation pliant/resize"),
    R.PLAN_STARTED: (
        message(R.PLAN_STARTED, [JOINS], plan="demo-scaleplan-1", message="worker-1 was lost"),
        "demo-scaleplan-1: worker-4 joins at rank 2 (worker-1 was lost)",
    ),
    R.EXECUTING_PLAN: (
        message(R.EXECUTING_PLAN, plan="demo-scaleplan-1", message="worker-1 was lost"),
        "executing demo-scaleplan-1 (worker-1 was lost)",
    ),
    R.SERVERS_LISTED: (message(R.SERVERS_LISTED, count=2), "2 parameter servers listed"),
    R.MEMBER_RESOURCES_CHANGED: (
        message(R.MEMBER_RESOURCES_CHANGED, group="worker", resources="cpu 2, memory 4Gi"),
        "new worker pods get cpu 2, memory 4Gi",
    ),
    R.MEMBER_JOINS: (JOINS, "worker-4 joins at rank 2"),
    R.MEMBER_LEAVES: (message(R.MEMBER_LEAVES, member="worker-1"), "worker-1 leaves"),
    R.MEMBER_MIGRATES: (
        message(R.MEMBER_MIGRATES, member="worker-1", replacement="worker-4"),
        "worker-1 migrates to worker-4",
    ),
    R.MEMBERS_REPLACED: (message(R.MEMBERS_REPLACED, [REPLACES]), "worker-4 replaces worker-1"),
    R.MEMBER_REPLACES: (REPLACES, "worker-4 replaces worker-1"),
    R.REPLACEMENT_FAILED: (message(R.REPLACEMENT_FAILED), "the replacement failed; the member to replace stays"),
    R.PLAN_EDIT_IGNORED: (
        message(R.PLAN_EDIT_IGNORED, phase="Succeeded"),
        "the edit has no effect: the phase is Succeeded; create another plan",
    ),
    R.SPEC_WARNING: (message(R.SPEC_WARNING, message="spec.envs is ignored"), "spec.envs is ignored"),
    R.INVALID_SPEC: (
        message(R.INVALID_SPEC, message="spec.replicaSpecs: needs at least one group"),
        "spec.replicaSpecs: needs at least one group",
    ),
    R.SPEC_REJECTED: (
        message(R.SPEC_REJECTED, message="spec.replicaSpecs.ps: cannot be removed"),
        "the job continues with the last accepted spec: spec.replicaSpecs.ps: cannot be removed",
    ),
    R.FAILED_GRANT_ACCESS: (message(R.FAILED_GRANT_ACCESS, message="forbidden"), "forbidden"),
    R.MASTER_ACCESS_MISSING: (
        message(R.MASTER_ACCESS_MISSING, account="mine", namespace="team", missing="list pods", role="demo-master"),
        (
            "service account mine of the master may not list pods: run `kubectl create rolebinding demo-master-mine "
            "--namespace team --role demo-master --serviceaccount team:mine`, or name no account"
        ),
    ),
    R.EVENTS_SUPPRESSED: (message(R.EVENTS_SUPPRESSED), "further events with this reason are only counted"),
    R.STATUS_PRUNED: (
        message(R.STATUS_PRUNED, message="the installed CRD prunes status.pliant"),
        "the installed CRD prunes status.pliant",
    ),
    R.STATUS_REJECTED: (
        message(R.STATUS_REJECTED, error='TFJob "demo" is invalid: spec.runPolicy: Required', fix="correct the job"),
        'the API server rejects a status: TFJob "demo" is invalid: spec.runPolicy: Required; correct the job',
    ),
}
