"""Bugs of elastic jobs: replicas that leave, the membership, and what outlives rank 0."""

from __future__ import annotations

from tests.planted.bug import Bug

AREA = "elasticity"

ELASTIC_BUGS = (
    Bug(
        name="leaving-replica-deleted-at-once",
        area=AREA,
        what="a replica that was asked to save its state is deleted at once",
        file="pliant/engine/departures.py",
        before="    return departure.acknowledged_at is None and now < departure.deadline\n",
        after="    return departure.acknowledged_at is None and now > departure.deadline\n",
        likely=("tests/engine/test_departures.py",),
    ),
    Bug(
        name="earlier-acknowledgement-counts",
        area=AREA,
        what="the acknowledgement of an earlier checkpoint request counts for the next one",
        file="pliant/engine/departures.py",
        before="pod.acknowledged_checkpoint >= departure.request",
        after="pod.acknowledged_checkpoint >= min(departure.request, 1)",
        likely=("tests/engine/test_departures.py",),
    ),
    Bug(
        name="common-checkpoint-without-peers",
        area=AREA,
        what="the members of a job that is suspended lose their peers before they have saved their state together",
        file="pliant/engine/members.py",
        before="    if not job.publishes_membership or _all_leave(replicas, state):\n",
        after="    if not job.publishes_membership:\n",
        likely=("tests/engine/test_departures.py",),
    ),
    Bug(
        name="loss-of-store-charged",
        area=AREA,
        what="the loss of the rendezvous store is counted as a restart",
        file="pliant/engine/restart/requests.py",
        before="            cause = RestartCause.DISRUPTION if is_control else replica.failure_cause\n",
        after="            cause = replica.failure_cause\n",
        likely=("tests/engine/test_control_groups.py",),
    ),
    Bug(
        name="acknowledgement-lowered",
        area=AREA,
        what="a late acknowledgement replaces a later one",
        file="pliant/controllers/membership/acknowledgements.py",
        before="        if stored is not None and stored >= number:\n",
        after="        if stored is not None and stored == number:\n",
        likely=("tests/controllers/test_membership.py",),
    ),
    Bug(
        name="drained-replica-leaves",
        area=AREA,
        what="a program leaves although its node is only being drained",
        file="pliant/elastic.py",
        before='fields.get("reason") != NODE_DRAINING)',
        after='fields.get("reason") != "")',
        likely=("tests/elastic/test_checkpoints.py",),
    ),
    Bug(
        name="first-replica-removed",
        area=AREA,
        what="a smaller group may lose replica 0",
        file="pliant/engine/removal.py",
        before="    return (index == 0, pod.deletion_cost,",
        after="    return (index < 0, pod.deletion_cost,",
        likely=("tests/engine/test_departures.py",),
    ),
)
