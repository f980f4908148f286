"""Isolation of pods: Linux namespaces, cgroups and root file systems, or plain processes of the host."""
