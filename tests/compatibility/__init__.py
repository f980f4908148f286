"""Samples of other operators, changed only in image and command, end as with their own operators."""
