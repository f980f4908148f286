"""The kinds of the Kubeflow training operator (kubeflow.org/v1): one module per kind, and their common base."""
