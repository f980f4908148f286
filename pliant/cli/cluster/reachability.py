"""Notices that a cluster is gone while a command waits for its news."""

from __future__ import annotations

import asyncio

from pliant.errors import ApiError, PliantError, ServerError, Unreachable
from pliant.kube.client import KubeClient

CHECK_INTERVAL = 5.0
"""Seconds between two looks."""
ANSWER_TIMEOUT = 10.0
"""Seconds that an answer may take, repetitions included."""


class ClusterLost(PliantError):
    """The cluster that news were awaited from does not answer any more."""


async def monitor_reachability(client: KubeClient) -> None:
    """Go on for as long as the cluster answers; raises `ClusterLost` when it does not.

    Watches by themselves wait for a cluster that is away, however long: right for an operator, not for a person.
    """
    while True:
        await asyncio.sleep(CHECK_INTERVAL)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await client.get_raw("/version")
        except TimeoutError:
            raise ClusterLost(
                f"the cluster does not answer any more: nothing within {ANSWER_TIMEOUT:g} seconds"
            ) from None
        except (Unreachable, ServerError) as error:
            raise ClusterLost(f"the cluster does not answer any more: {error}") from error
        except ApiError:
            continue  # it answers, if only to refuse
