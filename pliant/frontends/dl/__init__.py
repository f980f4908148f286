"""DLJob, the base class of kinds whose spec is a list of replica types, and the kinds of mpba.fbk.eu/v1."""
