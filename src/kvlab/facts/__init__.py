"""The GPU table."""
