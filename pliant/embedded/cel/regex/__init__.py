"""Regular expressions of RE2, matched in linear time: a hostile pattern cannot stop the server."""
