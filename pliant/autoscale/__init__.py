"""Autoscaling policies: pure functions from a cluster snapshot to group sizes."""
