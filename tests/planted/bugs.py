"""Every bug that is planted, by area."""

from __future__ import annotations

from tests.planted.api_bugs import API_BUGS
from tests.planted.bug import Bug
from tests.planted.cluster_bugs import CLUSTER_BUGS
from tests.planted.elastic_bugs import ELASTIC_BUGS
from tests.planted.engine_bugs import ENGINE_BUGS
from tests.planted.job_bugs import JOB_BUGS
from tests.planted.operator_bugs import OPERATOR_BUGS
from tests.planted.user_bugs import USER_BUGS

BUGS: tuple[Bug, ...] = (*ENGINE_BUGS, *JOB_BUGS, *ELASTIC_BUGS, *OPERATOR_BUGS, *CLUSTER_BUGS, *API_BUGS, *USER_BUGS)
