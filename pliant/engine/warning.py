"""What an author should know though the job can run: told once, and kept in the job's story."""

from __future__ import annotations

from msgspec.structs import replace

from pliant.engine.case import Case, Turn, turned

ODD_SPEC = "OddSpec"
"""What it is called there."""


def warned(case: Case) -> Turn | None:
    """Tell of what has not been told yet, if there is anything; the job goes on as it would."""
    news = [warning for warning in case.job.warnings if warning not in case.state.warned]
    if not news:
        return None
    return turned(replace(case.state, warned=case.job.warnings), case.now, ODD_SPEC, "; ".join(news))
