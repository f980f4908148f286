"""The functions of expressions: the standard ones, the extensions that Kubernetes enables, and its own."""
