"""Proof that the tests find bugs: bugs are planted one at a time, and the tests are run against each."""
