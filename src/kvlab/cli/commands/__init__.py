"""One file a verb; the file's name is its registration."""
