"""Runs the code of plugins in threads of their own: a plugin that blocks delays no other job."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pliant.errors import InvalidSpec
from pliant.frontends.frontend import Frontend
from pliant.model.job import Job
from pliant.plugins.registry import get_plugin_registry

PLUGIN_TIMEOUT_SECONDS = 5.0

T = TypeVar("T")


class PluginTimeout(InvalidSpec):
    """A plugin has not returned in time. Its job is reported as invalid and tried again later."""

    def __init__(self, plugin: str) -> None:
        limit = f"{PLUGIN_TIMEOUT_SECONDS:.0f} seconds"
        super().__init__(
            "spec", f"the plugin class {plugin} has not returned within {limit}: its methods must not block"
        )


def plugin_of_kind(frontend: Frontend) -> str:
    """Return the class of the plugin that defines a kind; empty if the kind is built in."""
    return "" if _is_built_in(frontend) else type(frontend).__name__


def plugin_of_job(frontend: Frontend, job: Job) -> str:
    """Return the class of a plugin that takes part in decisions about a job; empty if there is none."""
    registered = get_plugin_registry().frameworks
    frameworks = [registered[name] for name in job.frameworks if name in registered]
    return plugin_of_kind(frontend) or next((type(each).__name__ for each in frameworks if not _is_built_in(each)), "")


async def call_plugin(plugin: str, function: Callable[[], T]) -> T:
    """Call a function that may run code of a plugin; raise PluginTimeout if it does not return in time.

    Without a plugin, the function is called directly.
    """
    if not plugin:
        return function()
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT_SECONDS):
            return await _thread_of(plugin).submit(function)
    except TimeoutError:
        raise PluginTimeout(plugin) from None


def _is_built_in(kind_or_framework: object) -> bool:
    return type(kind_or_framework).__module__.startswith("pliant.")


@cache
def _thread_of(plugin: str) -> _PluginThread:
    return _PluginThread(plugin)


class _Call(NamedTuple):
    function: Callable[[], Any]
    result: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop

    def run(self) -> None:
        if self.result.cancelled():
            return  # nobody waits any more
        value, error = None, None
        try:
            value = self.function()
        except Exception as raised:  # any error belongs to the caller
            error = raised
        with suppress(RuntimeError):  # the event loop is closed
            self.loop.call_soon_threadsafe(self._finish, value, error)

    def _finish(self, value: Any, error: Exception | None) -> None:
        if self.result.cancelled():
            return
        if error is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(value)


class _PluginThread:
    """A thread that runs calls one after the other. It is a daemon: the operator can stop while a plugin blocks."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=f"plugin {name}", daemon=True).start()

    def submit(self, function: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        call = _Call(function, loop.create_future(), loop)
        self._calls.put(call)
        return call.result

    def _run(self) -> None:
        while True:
            self._calls.get().run()
