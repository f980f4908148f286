"""The cluster autoscaler: draws a picture of the cluster, lets a policy plan, and leaves wishes for jobs."""
