"""Logs as they come: opened and unpacked, cut into lines, taken out of what collectors wrapped around them."""
