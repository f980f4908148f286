"""Pods are not locked out when the time of day is set or the machine sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.auth.certificate_authority import issue_serving_certificate
from pliant.embedded.apiserver.auth.tokens import ServiceAccountRef, TokenIssuer
from pliant.embedded.controllers.node_lifecycle import HEARTBEAT_INTERVAL_SECONDS
from pliant.embedded.kubelet.volumes.pod_credentials import PodCredentials
from tests.virtual_time import EPOCH, ThreeClocks, VirtualClock, on_virtual_time

HOURS, DAYS = timedelta(hours=2), timedelta(days=2)
DISTURBANCES: dict[str, Callable[[VirtualClock], None]] = {
    **{
        f"the clock is set by {jump.total_seconds() / 3600:+.0f} h": partial(VirtualClock.jump_wall, by=jump)
        for jump in (HOURS, -HOURS, DAYS, -DAYS)
    },
    "the machine sleeps for 2 h": partial(VirtualClock.suspend, duration=HOURS),
    "the machine sleeps for 2 d": partial(VirtualClock.suspend, duration=DAYS),
}
POD: dict[str, Any] = {"metadata": {"name": "p", "namespace": "team", "uid": "u"}, "spec": {}}
ACCOUNT = ServiceAccountRef(namespace="team", name="trainer")


@asynccontextmanager
async def pod_token(folder: Path) -> AsyncIterator[tuple[TokenIssuer, Path]]:
    """The token file of a pod, looked after as the cluster does."""
    clock = VirtualClock()
    issuer = TokenIssuer(clock)
    credentials = PodCredentials(issuer, b"authority", clock)
    credentials.write_service_account(POD, folder / "account")

    async def heartbeats() -> None:
        while True:
            credentials.renew_after_clock_jump()
            await asyncio.sleep(HEARTBEAT_INTERVAL_SECONDS)

    task = asyncio.create_task(heartbeats())
    try:
        yield issuer, folder / "account" / "token"
    finally:
        task.cancel()
        credentials.close()


@pytest.mark.parametrize("name", DISTURBANCES)
@on_virtual_time
async def test_a_pod_is_never_locked_out_for_longer_than_a_minute(tmp_path: Path, name: str) -> None:
    async with pod_token(tmp_path) as (issuer, token):
        await asyncio.sleep(1000)
        DISTURBANCES[name](VirtualClock())
        refused = 0
        for _ in range(2 * 3600 // 10):
            refused += issuer.authenticate(token.read_text()) is None
            await asyncio.sleep(10)
        assert refused == 0


@pytest.mark.parametrize("name", DISTURBANCES)
@on_virtual_time
async def test_a_client_that_rereads_its_token_every_minute_is_never_refused(tmp_path: Path, name: str) -> None:
    async with pod_token(tmp_path) as (issuer, token):
        await asyncio.sleep(1000)
        held = token.read_text()
        DISTURBANCES[name](VirtualClock())
        for _ in range(29):
            assert issuer.authenticate(held) is not None
            await asyncio.sleep(2)
        assert token.read_text() != held
        assert issuer.authenticate(token.read_text()) is not None


@pytest.mark.parametrize("name", DISTURBANCES)
@on_virtual_time
async def test_the_claims_of_a_token_are_true_soon_after_a_jump(tmp_path: Path, name: str) -> None:
    async with pod_token(tmp_path) as (_, token):
        DISTURBANCES[name](VirtualClock())
        await asyncio.sleep(3)
        now, claims = VirtualClock().now().timestamp(), decoded(token.read_text())
        assert claims["nbf"] <= claims["iat"] <= now < claims["exp"] <= now + 3607


@pytest.mark.parametrize("jump", [HOURS, -HOURS, DAYS, -DAYS])
def test_a_token_is_good_for_its_time_whatever_the_time_of_day(jump: timedelta) -> None:
    clock = ThreeClocks()
    issuer = TokenIssuer(clock)
    token = issuer.issue(ACCOUNT, timedelta(minutes=10))
    clock.jump_wall(jump)
    clock.advance(599)
    assert issuer.authenticate(token) is not None
    clock.advance(1)
    assert issuer.authenticate(token) is None


def test_sleep_counts_and_what_expired_in_it_is_good_for_one_more_minute() -> None:
    clock = ThreeClocks()
    issuer = TokenIssuer(clock)
    old = issuer.issue(ACCOUNT, timedelta(minutes=10))
    clock.advance(590)
    token = issuer.issue(ACCOUNT, timedelta(minutes=10))
    clock.suspend(HOURS)
    assert issuer.authenticate(token) is not None
    clock.advance(20)
    assert issuer.authenticate(old) is None  # it would have expired by now without the sleep
    clock.advance(40)
    assert issuer.authenticate(token) is not None
    clock.advance(1)
    assert issuer.authenticate(token) is None


@pytest.mark.parametrize("jump", [HOURS, -HOURS, DAYS, -DAYS, timedelta(days=365), -timedelta(days=365)])
def test_the_certificate_of_the_server_is_valid_whatever_the_time_of_day(jump: timedelta) -> None:
    from cryptography import x509

    issued = issue_serving_certificate(["localhost"], EPOCH)
    for each in (issued.certificate, issued.ca_certificate):
        certificate = x509.load_pem_x509_certificate(each)
        assert certificate.not_valid_before_utc < EPOCH + jump < certificate.not_valid_after_utc


def decoded(token: str) -> dict[str, Any]:
    import base64

    return msgspec.json.decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="), type=dict[str, Any])
