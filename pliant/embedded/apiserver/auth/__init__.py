"""Service account tokens, self-subject reviews, and the certificates and kubeconfig of the cluster."""
