"""Names of jobs that commands create."""

from __future__ import annotations

import re

from pliant.errors import UserError

MAX_JOB_NAME_LENGTH = 40  # pod names append the group and index, and end at 63 characters


def check_job_name(name: str) -> None:
    """Raise UserError for a name that is not valid for a job and its pods."""
    if len(name) > MAX_JOB_NAME_LENGTH or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        rule = f"use a-z, 0-9 and `-`, start with a letter, at most {MAX_JOB_NAME_LENGTH} characters"
        raise UserError(f"`{name}` is not a valid name; {rule}")
