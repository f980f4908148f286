"""Serves membership and checkpoint requests to the replicas of jobs, and stores what replicas acknowledge."""
