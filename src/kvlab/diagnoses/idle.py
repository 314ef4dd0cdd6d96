"""Nothing is asked of the server.

Conditions:
- at no look does a request run or wait
- no token is generated between the looks (with one look: not known)

Cause: no traffic, or none that reaches this replica.

Do:
- see where the traffic goes. Why: a router may prefer other replicas, or clients may be failing before they reach
  this one. Expect: requests at the router that this server does not count. Verify: requests_total rises at the router
  and not here.
- measure it under a load of your own. Why: an idle server says nothing about its limits. Expect: the number of
  requests that it serves within your objectives. Verify: kvlab bench URL --rate N, and kvlab diagnose URL beside it.

Source: https://docs.vllm.ai/en/latest/design/metrics.html
"""

from __future__ import annotations

from kvlab.core.diagnosis import Case, Condition, Rule, Way
from kvlab.diagnoses._gauges import SECOND, UNSTATED
from kvlab.diagnoses._rates import active


def _still(case: Case) -> Condition:
    """Whether no look shows a request."""
    words = ("running", "waiting")
    seen = {word: [look.reading.values.get(word) for look in case.looks] for word in words}
    told = {word: [value for value in values if value is not None] for word, values in seen.items()}
    if any(value for values in told.values() for value in values):
        most = max(value for values in told.values() for value in values)
        return Condition(text=f"up to {most:,.0f} requests run or wait", holds=False)
    if not all(told.values()):
        unseen = ", ".join(f"{word} requests" for word, values in told.items() if not values)
        missing = f"{unseen}: {UNSTATED}"
        return Condition(text="whether requests run or wait", holds=None, missing=missing)
    looks = "the one look" if len(case.looks) == 1 else f"any of {len(case.looks)} looks"
    missing = "" if len(case.looks) > 1 else f"whether requests come between two looks: {SECOND}"
    return Condition(text=f"no request runs or waits at {looks}", holds=True, missing=missing, sure=not missing)


def _ways(case: Case) -> tuple[Way, ...]:
    still = _still(case)
    return ((still, active(case).denied()),) if case.window is not None else ((still,),)


RULE = Rule(precedence=1, ways=_ways)
