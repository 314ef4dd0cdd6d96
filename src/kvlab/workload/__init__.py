"""Analysis of a trace: lengths, the limit they need, prefix reuse at every cache size, and what to change."""
