"""DLJob, the base class of kinds whose spec is a list of replicas, and the kinds of mpba.fbk.eu/v1."""
