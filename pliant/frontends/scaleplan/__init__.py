"""ScalePlan of elastic.iml.github.io/v1alpha1: which members an ElasticJob is to have."""

from __future__ import annotations

from pliant.frontends.scaleplan.plan import ScalePlan, owner_job, parse_plan, plan_status

__all__ = ["ScalePlan", "owner_job", "parse_plan", "plan_status"]
