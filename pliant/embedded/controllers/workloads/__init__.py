"""The controllers of Deployments, ReplicaSets and Jobs."""
