"""The job kinds of Kubeflow's training operator (kubeflow.org/v1): one file each, and what they share."""
