"""How requests are answered: verbs, admission, watches, deletion, garbage collection, HTTP."""
