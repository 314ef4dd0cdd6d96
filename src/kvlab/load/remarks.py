"""What a reader of a result must know before believing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvlab.core.measure import SUSPECT_HITS, RequestRow
from kvlab.load.datasets import Dataset, RandomTokens, RequestLog, SharedPrefix, TraceFile
from kvlab.load.preparing import BenchSpec
from kvlab.load.retry import BUSY
from kvlab.load.spec import LoadResult, Prompt


def remarks(spec: BenchSpec, prompts: Sequence[Prompt], result: LoadResult) -> list[str]:
    """What a reader of the numbers must know before believing them."""
    found = _reused(spec.dataset, prompts)
    hits = result.pool.prefix_hit_rate
    if isinstance(spec.dataset, RandomTokens) and hits is not None and hits > SUSPECT_HITS:
        found.append(
            f"{hits:.0%} of the prompt tokens came from the prefix cache, and these prompts share nothing: the server"
            " was sent them before. Restart it, or give another --seed"
        )
    if doubted := [row.doubt for row in result.rows if row.doubt is not None]:
        found.append(
            f"{len(doubted)} of {len(result.rows)} answers state numbers that cannot be ({doubted[0]}): they are left"
            " out, and output tokens counted by the chunks that arrived"
        )
    if result.cancelled:
        found.append(
            f"{result.cancelled} of {len(result.rows)} requests were cancelled by the client, as asked; they neither"
            " completed nor failed"
        )
    if busy := sum(bool(row.retried) for row in result.rows):
        found.append(
            f"{busy} of {len(result.rows)} requests were sent again after the server had refused them as busy; their"
            " times include the waits"
        )
    if spec.load.tls.insecure:
        found.append("the server's certificate was not checked (--insecure)")
    if result.client is not None and result.client.bottleneck:
        found.append(
            f"the client itself held this load back or blurs its times: {result.client.because}; give it more"
            " --processes, or a machine of its own"
        )
    if result.failed:
        found.append(_failed(result))
    return found


def _failed(result: LoadResult) -> str:
    why, times = next(iter(errors(result.rows).items()))
    more = f" ({times} of them)" if times < result.failed else ""
    busy = any(row.status in BUSY and not row.retried for row in result.rows)
    hint = "; --retry N sends again what a busy server refuses" if busy else ""
    share = f"{result.failed} of {len(result.rows)} requests failed"
    return f"{share}: {why}{more}{hint}; the latencies are those of the others"


def _reused(data: Dataset, prompts: Sequence[Prompt]) -> list[str]:
    """What is sent more than once: a server that caches prefixes answers it sooner than it would answer new text."""
    if isinstance(data, TraceFile | RequestLog):
        return []  # what they repeat is what they are replayed for; the trace's own hit rate stands in the file
    if any(prompt.follows is not None for prompt in prompts):
        later = sum(prompt.follows is not None for prompt in prompts)
        return [
            f"{later} of {len(prompts)} requests go on with a conversation by design: their prompts begin with"
            " what was sent before"
        ]
    different = len({(prompt.text, prompt.token_ids, repr(prompt.messages)) for prompt in prompts})
    if different < len(prompts):
        return [
            f"{len(prompts) - different} of {len(prompts)} requests repeat a prompt of this run: a prefix cache answers"
            " them sooner, so times to first token flatter the server; send each prompt once"
        ]
    if isinstance(data, SharedPrefix) and len(prompts) > data.prefixes:
        return [
            f"{len(prompts)} requests share {data.prefixes} prefix{'es' * (data.prefixes > 1)} of"
            f" {data.prefix_tokens:,} tokens by design: most times to first token are those of a cached prefix"
        ]
    return []


def errors(rows: Sequence[RequestRow]) -> dict[str, int]:
    """The most frequent errors, and how often each came; without what the client cancelled."""
    found: dict[str, int] = {}
    for row in rows:
        if row.error is not None and not row.cancelled:
            found[row.error] = found.get(row.error, 0) + 1
    return dict(sorted(found.items(), key=lambda item: -item[1])[:20])


def statuses(rows: Sequence[RequestRow]) -> dict[str, int]:
    """How often each HTTP status was answered, those after which a request was sent again included."""
    found = Counter(status for row in rows for status in (*row.retried, row.status) if status is not None)
    return {str(status): count for status, count in sorted(found.items())}
