"""Times in the format of Kubernetes objects."""

from __future__ import annotations

from datetime import datetime


def format_timestamp(time: datetime) -> str:
    """Return a time in UTC as a metav1.Time, such as 2026-01-02T15:04:05Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
