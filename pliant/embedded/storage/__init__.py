"""The object store: versioned objects in memory, a bounded change history for watches, and SQLite on disk."""
