"""Settings for every test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.register_profile("quick", parent=settings.get_profile("fast"), max_examples=10)
settings.register_profile("thorough", parent=settings.get_profile("fast"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
