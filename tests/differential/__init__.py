"""The same sequences of requests are sent to kube-apiserver and to the embedded API server, and the answers compared."""
