"""The same sequences of requests go to kube-apiserver and to the embedded API server, and the answers are compared."""
