"""The kubelet: runs the pods bound to this machine's nodes and writes their status."""
