"""Requests are served within the objectives.

Conditions:
- tokens are generated, and nothing waits but for a moment
- no request is thrown out of the cache
- 95 of 100 first tokens come within 2 s and 95 of 100 further tokens within 50 ms (--ttft, --tpot), read off the
  first bucket bound at or above; llama-server, which times neither: prompts do not take half of the window, and a
  token takes less on average

Cause: none is needed. How much more the server bears, a measurement tells.

Do:
- find out how much more it bears before traffic does. Why: health says nothing of the distance to the knee. Expect:
  the rate at which first tokens leave the objective. Verify: kvlab bench URL --rate N, with kvlab diagnose URL beside
  it.
- keep a series of today. Why: what changed is seen only against what was. Expect: a file to compare with. Verify:
  kvlab diagnose URL --save FILE, and kvlab diagnose FILE later.

Source: https://docs.vllm.ai/en/latest/design/metrics.html
"""

from __future__ import annotations

from kvlab.core.diagnosis import Case, Rule, Way
from kvlab.diagnoses._gauges import preempts
from kvlab.diagnoses._pressure import no_queue
from kvlab.diagnoses._rates import active, first_token, per_token


def _ways(case: Case) -> tuple[Way, ...]:
    calm = (no_queue(case), first_token(case).denied(), per_token(case).denied())
    thrown = preempts(case)
    # An engine that never preempts has no such counter.
    return ((active(case), *calm),) if thrown.holds is None else ((active(case), *calm, thrown.denied()),)


RULE = Rule(precedence=7, ways=_ways)
