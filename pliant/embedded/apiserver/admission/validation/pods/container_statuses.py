"""Validation of the statuses of the containers of a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_GROUPS: Final = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", ""),
)
_MAX_ID: Final = 2**31 - 1


def validate_container_statuses(status: Object, old: Object, spec: Object) -> Iterator[FieldError]:
    """Yield the errors of containers that run again although they may not restart, and of the users of processes."""
    restarts_all = any(
        rule.get("action") == "RestartAllContainers"
        for group in ("initContainers", "containers")
        for container in spec.get(group) or ()
        for rule in container.get("restartPolicyRules") or ()
    )
    system = (spec.get("os") or {}).get("name") or "linux"
    for field, group in _GROUPS:
        statuses = status.get(field) or []
        if not restarts_all or not group:
            yield from _validate_transitions(statuses, old.get(field) or [], spec, field, group)
        for index, each in enumerate(statuses):
            user = (each.get("user") or {}).get("linux")
            path = f"status.{field}[{index}].user.linux"
            if user is not None and system == "windows":
                yield forbidden_field(path, "cannot be set for a windows pod")
            elif user is not None:
                yield from _validate_user(user, path)


def _validate_transitions(
    statuses: list[Any], old: list[Any], spec: Object, field: str, group: str
) -> Iterator[FieldError]:
    containers = {each.get("name"): each for each in spec.get(group) or ()}
    for index, before in enumerate(old):
        terminated = (before.get("state") or {}).get("terminated")
        after = next((each for each in statuses if each.get("name") == before.get("name")), None)
        if terminated is None or after is None or (after.get("state") or {}).get("terminated") is not None:
            continue
        container = containers.get(before.get("name"))
        if container is None or not _restarts(container, spec, terminated.get("exitCode") or 0):
            detail = "may not be transitioned to non-terminated state"
            yield forbidden_field(f"status.{field}[{index}].state", detail)


def _restarts(container: Object, spec: Object, exit_code: int) -> bool:
    """Return whether a container restarts after an exit code: by its rules, its policy, or that of its pod."""
    policy = container.get("restartPolicy")
    if policy is not None and any(_matches(rule, exit_code) for rule in container.get("restartPolicyRules") or ()):
        return True
    if policy not in ("Always", "OnFailure", "Never"):
        policy = spec.get("restartPolicy")
    return policy != "Never" and (policy != "OnFailure" or exit_code != 0)


def _matches(rule: Object, exit_code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    is_listed = exit_code in (codes.get("values") or ())
    return codes.get("operator") == ("In" if is_listed else "NotIn")


def _validate_user(user: Object, path: str) -> Iterator[FieldError]:
    numbers = [("uid", user.get("uid") or 0), ("gid", user.get("gid") or 0)]
    numbers += [
        (f"supplementalGroups[{index}]", each) for index, each in enumerate(user.get("supplementalGroups") or ())
    ]
    for field, number in numbers:
        if not 0 <= number <= _MAX_ID:
            yield invalid_field(f"{path}.{field}", number, f"must be between 0 and {_MAX_ID}, inclusive")
