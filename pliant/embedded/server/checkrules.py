"""What the server refuses of probes and hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.embedded.schema import Problem, Reason
from pliant.embedded.storage.records import Object

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_WAYS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_WAYS = ("exec", "httpGet", "tcpSocket", "sleep")
_POLICIES = ("Always", "Never", "OnFailure")
_LAST_PORT = 65535


def check_problems(spec: Object) -> Iterator[Problem]:
    """All that is wrong with the probes and hooks of a pod, and with containers that may have none."""
    for index, container in enumerate(spec.get("containers") or ()):
        yield from _container_problems(container, f"spec.containers[{index}]")
    for index, container in enumerate(spec.get("initContainers") or ()):
        place, policy = f"spec.initContainers[{index}]", container.get("restartPolicy")
        if policy is not None and policy not in _POLICIES:
            words = ", ".join(f'"{each}"' for each in _POLICIES)
            yield Problem.of(f"{place}.restartPolicy", Reason.UNSUPPORTED, policy, f"supported values: {words}")
        if policy == "Always":
            yield from _container_problems(container, place)
            continue
        for field in (*_PROBES, "lifecycle"):
            if container.get(field):
                why = "may not be set for init containers without restartPolicy=Always"
                yield Problem.of(f"{place}.{field}", Reason.FORBIDDEN, None, why)


def _container_problems(container: Object, place: str) -> Iterator[Problem]:
    for kind in _PROBES:
        probe, where = container.get(kind), f"{place}.{kind}"
        if probe is None:
            continue
        yield from _handler_problems(probe, where, _WAYS)
        grace = probe.get("terminationGracePeriodSeconds")
        if kind == "readinessProbe" and grace is not None:
            field = f"{where}.terminationGracePeriodSeconds"
            yield Problem.of(field, Reason.INVALID, grace, "must not be set for readinessProbes")
        if kind != "readinessProbe" and probe.get("successThreshold") not in (None, 1):
            yield Problem.of(f"{where}.successThreshold", Reason.INVALID, probe["successThreshold"], "must be 1")
    for kind, hook in (container.get("lifecycle") or {}).items():
        if isinstance(hook, dict):
            yield from _handler_problems(hook, f"{place}.lifecycle.{kind}", _HOOK_WAYS)


def _handler_problems(asked: Object, place: str, ways: tuple[str, ...]) -> Iterator[Problem]:
    """There must be one way to ask, and it must be sound."""
    chosen = [way for way in ways if asked.get(way) is not None]
    if not chosen:
        yield Problem.of(place, Reason.REQUIRED, None, "must specify a handler type")
    for way in chosen[1:]:
        yield Problem.of(f"{place}.{way}", Reason.FORBIDDEN, None, "may not specify more than 1 handler type")
    if chosen[:1] == ["exec"] and not asked["exec"].get("command"):
        yield Problem.of(f"{place}.exec.command", Reason.REQUIRED, None, "")
    if chosen and chosen[0] in ("httpGet", "tcpSocket") and not _is_port(asked[chosen[0]].get("port")):
        why = f"must be between 1 and {_LAST_PORT}, inclusive"
        yield Problem.of(f"{place}.{chosen[0]}.port", Reason.INVALID, asked[chosen[0]].get("port"), why)


def _is_port(port: Any) -> bool:
    return bool(port) if isinstance(port, str) else isinstance(port, int) and 1 <= port <= _LAST_PORT
