"""The settings that llama-server's log states."""

from __future__ import annotations

from kvlab.core.stated import StatedArgs
from kvlab.engines._llama.settings import TOLD, derived, normal

STATED = StatedArgs(told=TOLD, derived=derived, normal=normal, where="the lines of its caches, which need -lv 4")
