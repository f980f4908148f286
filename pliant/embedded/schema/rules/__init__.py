"""The rules of CRDs (x-kubernetes-validations): checked when a CRD is created, evaluated when an object is written.

Only `pending.py` is imported with the API server; the rest, and CEL, is imported when a kind with rules is used.
"""
