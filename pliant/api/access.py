"""Access to the cluster of a job: a running cluster by its kubeconfig, or a temporary one in this process."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Protocol

from pliant.cli.cluster.target import ClusterTarget, choose_endpoint, connect_endpoint
from pliant.cli.cluster.waiting import WaitTimeout
from pliant.cli.explain.os_errors import explain_os_error
from pliant.cli.input.problems import first_pliant_error

log = logging.getLogger(__name__)


class ClusterAccess(Protocol):
    """Connects to one cluster and namespace."""

    @property
    def description(self) -> str:
        """What a person calls the cluster."""

    @property
    def is_open(self) -> bool:
        """Whether the cluster can still be reached: a temporary cluster stops."""

    def connect(self) -> AbstractAsyncContextManager[ClusterTarget]: ...


class RunningClusterAccess:
    """Connects to a running cluster; the choice is made once, so that a job stays on its cluster."""

    def __init__(self, arguments: Namespace) -> None:
        choice = choose_endpoint(arguments, os.environ)
        self._endpoint = choice.endpoint
        self._namespace: str | None = arguments.namespace
        self.description = choice.endpoint.url
        if choice.description:
            log.info("cluster chosen", extra={"cluster": choice.description, "url": choice.endpoint.url})

    @property
    def is_open(self) -> bool:
        return True

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ClusterTarget]:
        async with connect_endpoint(self._endpoint, self._namespace) as target:
            yield target


@contextmanager
def api_errors() -> Iterator[None]:
    """Raise the first expected error of a task group, TimeoutError for a timeout, and explain errors of the machine."""
    try:
        yield
    except (BaseExceptionGroup, WaitTimeout, OSError) as error:
        expected = _expected_error(error)
        if expected is error:
            raise
        raise expected from error


def _expected_error(error: BaseException) -> BaseException:
    if isinstance(error, BaseExceptionGroup):
        error = first_pliant_error(error)
    if isinstance(error, WaitTimeout):
        return TimeoutError(f"{error.problem}{error.state}")
    return explain_os_error(error) or error
