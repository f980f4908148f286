"""Who may do what on the embedded cluster: roles, bindings, requests and answers."""

from __future__ import annotations

from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from tests.access.asking import answer, prepare, was_allowed
from tests.access.table import USERS, trials
from tests.embedded.serving import serving


async def test_each_request_of_the_table_is_allowed_or_denied_as_on_kubernetes() -> None:
    async with serving(mode=AuthorizationMode.RBAC) as server:
        await prepare(server.transport)
        wrong = []
        for trial in trials():
            given = await answer(InProcessTransport(server.api, USERS[trial.who]), trial)
            if was_allowed(given) is not trial.allowed or given["status"] >= 500:
                wrong.append(f"{trial}: {given}")
        assert not wrong, "\n".join(wrong)


async def test_without_authorization_nothing_is_denied() -> None:
    async with serving() as server:
        await prepare(server.transport)
        for trial in (each for each in trials() if "watch" not in each.query):
            given = await answer(InProcessTransport(server.api, USERS[trial.who]), trial)
            assert was_allowed(given), f"{trial}: {given}"
