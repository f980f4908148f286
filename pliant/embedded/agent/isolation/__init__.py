"""Isolation of pods: Linux namespaces, cgroups, root file systems, or plain processes of the host."""
