"""Credentials for an API server: kubeconfig files, tokens, client certificates and exec plugins."""
