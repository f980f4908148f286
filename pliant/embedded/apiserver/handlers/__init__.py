"""Handlers of API verbs and subresources: get, list, watch, writes, deletion, eviction, scale, metrics."""
