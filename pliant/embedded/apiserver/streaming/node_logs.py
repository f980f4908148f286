"""The log directory of a node behind the subresource `proxy`, as the kubelet serves it: `/logs/pods/`.

The nodes share a kubelet and so the directory. Access requires the permission `nodes/proxy`, which includes the logs of
all namespaces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from pliant.embedded.apiserver.http.errors import path_not_found
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.streaming.logs import LogOptions, parse_log_options
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.kube.transport.base import JSON_CONTENT_TYPE, Reply, StreamReply
from pliant.runtime.clock import Clock

_POD_LOGS_PATH = ("logs", "pods")


class NodeLogSource(Protocol):
    """Reads below the directory of pod logs; a path consists of the names in it."""

    async def list_directory(self, path: Sequence[str]) -> list[str] | None:
        """Return the names in a directory, those of directories with a slash; None if it does not exist."""

    def read_file(self, path: Sequence[str], options: LogOptions) -> AsyncIterator[bytes] | None:
        """Return the chunks of a file; None if it does not exist."""


async def read_node_logs(
    index: ObjectIndex, info: RequestInfo, source: NodeLogSource | None, clock: Clock
) -> Reply | StreamReply:
    """List a directory as HTML, as the file server of a kubelet does, or stream a file."""
    info.require_stored_object(index)
    path = tuple(filter(None, info.proxied_path))
    if source is None or path[:2] != _POD_LOGS_PATH:
        raise path_not_found()
    path = path[2:]
    names = await source.list_directory(path)
    if names is not None:
        return _directory_reply(names)
    chunks = source.read_file(path, parse_log_options(info, clock))
    if chunks is None:
        raise path_not_found()
    content_type = JSON_CONTENT_TYPE if path[-1].endswith(".json") else "text/plain"
    return StreamReply(status=200, chunks=chunks, content_type=content_type)


def _directory_reply(names: Sequence[str]) -> Reply:
    links = "\n".join(f'<a href="{name}">{name}</a>' for name in names)  # no name needs to be escaped
    return Reply(status=200, body=f"<pre>\n{links}\n</pre>\n".encode(), content_type="text/html; charset=utf-8")
