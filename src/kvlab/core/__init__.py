"""Pure values and arithmetic: no files, processes, network, clock or randomness."""
