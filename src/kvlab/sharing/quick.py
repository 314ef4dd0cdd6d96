"""The quick part: time to first token of requests that share a long system prompt, cold against warm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.measure import PoolUse, RequestRow
from kvlab.core.performance import share
from kvlab.core.quality import Interval, Prefix, PrefixRequest
from kvlab.core.statistics import geometric_interval
from kvlab.sharing.server import QUESTION_TOKENS as QUESTION_TOKENS
from kvlab.sharing.server import look

if TYPE_CHECKING:
    from kvlab.load.spec import LoadResult

POLICY = (
    "The desk answers only questions about orders, deliveries and returns, and refers everything else to the main"
    " office. A customer who has waited longer than ten days is offered the choice between a refund and a"
    " replacement, without having to ask for it. Prices, names and addresses are never repeated in an answer, even"
    " when the customer has given them first."
)
POLICY_TOKENS = 69
"""Tokens of one repeat of the policy as Gemma 3 counts them; other tokenizers differ a little."""
LONG_PREFIX = 120 * POLICY_TOKENS
QUESTIONS = (
    "My parcel has been on its way for twelve days. What can I choose?",
    "Can I send back a lamp that I have already switched on?",
    "Who can tell me whether you are hiring?",
    "The box arrived open and one of the cups is missing. What now?",
    "How long may I take to return a coat that does not fit?",
    "Do you deliver to an island without a post office?",
    "I ordered two chairs and got three. Do I have to pay for the third?",
    "Is there a way to change the address after the order was sent?",
)
ANSWER_TOKENS = 4
TOO_LONG = "; if the prompts were too long for the server, lower --prefix-tokens"
SLIGHT = 1.1
"""A speed-up below this is nothing: a prefix that is really reused saves most of its time."""
LEAST_HIT = 0.1
"""Cached share of a prompt that was sent before below which it was not found; block rounding alone costs far less."""

LOOK = (
    "prefix caching is off or not hitting: look for variable text at the front of the prompt, at the prefix-caching"
    " flag, and for a sliding window longer than the prefix"
)

Code = Literal["prefix caching works", "prefix caching gives nothing", "inconclusive"]


def run_prefix(
    url: str,
    engine: str | None = None,
    *,
    rounds: int = 4,
    warm: int = 3,
    prefix_tokens: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prefix:
    """Measure prefix caching on the server at `url`: `rounds` fresh prefixes, each sent cold and then `warm` times.

    `engine` names whose counters to read beside the answers' own usage (None: only usage). `prefix_tokens` is the
    length aimed at; None: 120 repeats of the three-sentence policy, or what the server says that a request may hold.
    The engine's own count is in the result.
    Keep it above a model's sliding window: llama.cpp was seen to read a shared prefix of 429 tokens again for every
    request to a model with a window of 512, and to reuse one of 705.
    Requests go one after another, so an engine that keeps its cache per slot finds the prefix in the slot that has just
    become free. `progress` is told (done, total).

    Raises BadInput for settings without an answer, ServerRefused when the server cannot be reached or answers nothing,
    EngineFailed when fewer than two rounds had a cold and a warm answer.
    """
    if prefix_tokens is None:
        check_counts(rounds, warm)
        prefix_tokens = min(LONG_PREFIX, look(url, engine).room or LONG_PREFIX)
    result = send_rounds(url, engine, rounds=rounds, warm=warm, prefix_tokens=prefix_tokens, progress=progress)
    return judge_prefix(result.rows, result.pool, warm=warm)


def check_counts(rounds: int, warm: int) -> None:
    """Raises BadInput for numbers of rounds and of warm requests without an answer."""
    if rounds < 2:
        raise BadInput(f"{rounds} rounds of the prefix experiment give no interval; ask for at least 2")
    if not 2 <= warm < len(QUESTIONS):
        raise BadInput(f"{warm} warm requests a round: ask for 2 to {len(QUESTIONS) - 1}")


def send_rounds(
    url: str,
    engine: str | None,
    *,
    rounds: int,
    warm: int,
    prefix_tokens: int,
    progress: Callable[[int, int], None] | None = None,
) -> LoadResult:
    """The load of `run_prefix`, whose rows `judge_prefix` judges; raises what it raises before judging."""
    from secrets import token_hex

    from kvlab.load.runner import run_load
    from kvlab.load.server import metrics_of
    from kvlab.load.spec import LoadSpec, Prompt

    check_counts(rounds, warm)
    if prefix_tokens < POLICY_TOKENS:
        raise BadInput(f"a prefix of {prefix_tokens} tokens is too short to see; ask for {POLICY_TOKENS} or more")
    # Fresh names: a server that was measured before may still hold the old prefixes.
    names = [f"{token_hex(4)}-{number}" for number in range(rounds)]
    prompts = [
        Prompt(id=f"{name}-{position}", output_tokens=ANSWER_TOKENS, text=text)
        for name in names
        for position, text in enumerate(round_prompts(name, warm=warm, prefix_tokens=prefix_tokens))
    ]
    return run_load(
        url,
        prompts,
        LoadSpec(concurrency=1, ignore_eos=False),
        warm_up=[Prompt(id="warm-up", output_tokens=ANSWER_TOKENS, text="Good morning! How are")],
        metrics=metrics_of(engine),
        progress=progress and (lambda at: progress(at.done, at.total) if at.phase == "load" else None),
    )


def round_prompts(name: str, *, warm: int, prefix_tokens: int) -> list[str]:
    """The prompts of one round: `name` at the very front, the repeated policy, then a different question each."""
    repeats = max(1, round(prefix_tokens / POLICY_TOKENS))
    system = f"{name} is the number of this desk. " + " ".join([POLICY] * repeats)
    return [f"{system}\n\nCustomer: {question}\nDesk:" for question in QUESTIONS[: warm + 1]]


def judge_prefix(rows: Sequence[RequestRow], pool: PoolUse, *, warm: int) -> Prefix:
    """The experiment's rows, `warm` + 1 a round in sending order, as intervals and a verdict.

    A round counts when its cold request and at least one warm one were answered. TTFTs are geometric means; a round's
    warm requests count as one value, their geometric mean, because they share a prefix; the speed-up is the mean over
    rounds of cold / warm. Raises EngineFailed when fewer than two rounds count.
    """
    requests, failed = [], [row for row in rows if row.ttft is None or row.error is not None]
    for index, row in enumerate(rows):
        if row.ttft is not None and row.error is None:
            number, position = divmod(index, warm + 1)
            requests.append(
                PrefixRequest(
                    round=number,
                    position=position,
                    ttft=row.ttft,
                    prompt_tokens=row.prompt_tokens,
                    cached_tokens=row.cached_tokens,
                )
            )
    cold, warmed = _rounds(requests)
    cold_ttft, warm_ttft = geometric_interval(cold), geometric_interval(warmed)
    speedup = geometric_interval([one / other for one, other in zip(cold, warmed, strict=True)])
    if cold_ttft is None or warm_ttft is None or speedup is None:
        why = f": {failed[0].error}" if failed else ""
        raise EngineFailed(
            f"the prefix experiment needs two rounds with a cold and a warm answer, it had {len(cold)};"
            f" {len(failed)} of {len(rows)} requests failed{why}{TOO_LONG if failed else ''}"
        )
    cached, source = _cached_share(requests, pool)
    verdict, because = _verdict(speedup, cached, source)
    if failed:
        because += f"; {len(failed)} of {len(rows)} requests failed ({failed[0].error})"
    if doubted := [row.doubt for row in rows if row.doubt is not None]:
        because += f"; of {len(doubted)} answers the numbers were left out ({doubted[0]})"
    return Prefix(
        rounds=len(rows) // (warm + 1),
        requests=tuple(requests),
        cold_ttft=cold_ttft,
        warm_ttft=warm_ttft,
        speedup=speedup,
        cached_share=cached,
        verdict=verdict,
        because=because + _cold_hits(requests),
    )


def _rounds(requests: Sequence[PrefixRequest]) -> tuple[list[float], list[float]]:
    """Cold TTFT and mean warm TTFT of every round that has both, in seconds."""
    from statistics import geometric_mean

    cold, warm = [], []
    for number in sorted({request.round for request in requests}):
        members = [request for request in requests if request.round == number]
        first = [request.ttft for request in members if request.position == 0]
        others = [request.ttft for request in members if request.position > 0]
        if first and others and min(first[0], *others) > 0:
            cold.append(first[0])
            warm.append(geometric_mean(others))
    return cold, warm


def _cached_share(requests: Sequence[PrefixRequest], pool: PoolUse) -> tuple[float | None, str]:
    """Share of the warm prompts' tokens that came from the cache, and who says so.

    The answers' own usage if they state it. Otherwise the counters of /metrics, which cover the whole run: the cold
    requests' tokens are taken out, since fresh prefixes cannot hit.
    """
    counted = _counted(request for request in requests if request.position > 0)
    if counted:
        return sum(cached for cached, _ in counted) / sum(tokens for _, tokens in counted), "the answers' usage"
    every = sum(request.prompt_tokens or 0 for request in requests)
    warm = sum(request.prompt_tokens or 0 for request in requests if request.position > 0)
    if pool.prefix_hit_rate is None or not 0 <= pool.prefix_hit_rate <= 1 or not warm:
        return None, "nobody"
    return min(1.0, pool.prefix_hit_rate * every / warm), "the engine's counters"


def _counted(requests: Iterable[PrefixRequest]) -> list[tuple[int, int]]:
    """(cached, all) prompt tokens of the requests whose usage states both, and states what can be."""
    pairs = [(request.cached_tokens, request.prompt_tokens) for request in requests]
    return [(cached, whole) for cached, whole in pairs if cached is not None and whole and 0 <= cached <= whole]


def _verdict(speedup: Interval, cached: float | None, source: str) -> tuple[Code, str]:
    faster = speedup.low > 1 and speedup.value >= SLIGHT
    seen = (
        f"cold / warm time to first token {speedup.value:.2f} (95 % interval {speedup.low:.2f} to {speedup.high:.2f})"
    )
    if cached is None:
        seen += "; the engine does not say how many tokens came from its cache"
        if faster:
            return "prefix caching works", seen
        if speedup.high < SLIGHT:
            return "prefix caching gives nothing", f"{seen}; {LOOK}"
        return "inconclusive", f"{seen}; a longer prefix or more rounds would tell"
    seen += f"; {share(cached)} of the warm prompts' tokens came from the cache, by {source}"
    if cached < LEAST_HIT:
        if faster:
            return "inconclusive", f"{seen}, so something else made the warm requests faster"
        return "prefix caching gives nothing", f"{seen}; {LOOK}"
    if faster:
        return "prefix caching works", seen
    return "inconclusive", f"{seen}, yet the first token is not clearly sooner: try a longer prefix or more rounds"


def _cold_hits(requests: Sequence[PrefixRequest]) -> str:
    """A remark when the cold requests were not cold."""
    cold = _counted(request for request in requests if request.position == 0)
    hits = sum(cached for cached, _ in cold) / sum(tokens for _, tokens in cold) if cold else 0.0
    if hits < LEAST_HIT:
        return ""
    return f"; {share(hits)} of the cold prompts came from the cache too, so the speed-up is understated"
