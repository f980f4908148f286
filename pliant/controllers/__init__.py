"""The controllers: observe the cluster, let the engine decide, apply its actions."""
