"""Record -> terminal, HTML and PNG. Nothing is imported here: `kvlab plan --json` must not pay for rich or altair."""
