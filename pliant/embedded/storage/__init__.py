"""How objects are kept: bytes, versions, a bounded history and a journal on disk."""
