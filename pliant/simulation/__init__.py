"""A discrete-event simulation of jobs on a cluster under each autoscaling policy."""
