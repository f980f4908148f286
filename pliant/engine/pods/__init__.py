"""Replicas matched to observed pods, pod deletion, and the manifests of pods, services and ConfigMaps."""
