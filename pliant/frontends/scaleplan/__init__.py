"""ScalePlan of elastic.iml.github.io/v1alpha1: which members an ElasticJob is to have."""

from __future__ import annotations

from pliant.frontends.scaleplan.plan import ScalePlanFrontend, owner_job_name, parse_plan, render_plan_status

__all__ = ["ScalePlanFrontend", "owner_job_name", "parse_plan", "render_plan_status"]
