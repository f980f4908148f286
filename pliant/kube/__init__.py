"""How to talk to Kubernetes: a small client, informers and their stores. Knows no job."""
