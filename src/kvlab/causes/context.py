"""The server runs with another context.

Seen: the log states another maximum length of a request than the plan. A longer one raises the peak of the profiling
run and lowers what fits together; where windows or states are kept, the tokens change by more than the ratio.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("context",))
