"""Requests sent one after another, with an account of what was sent, what usage states and what the engine counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kvlab.core.measure import MetricSample, RequestRow
from kvlab.sharing.server import Known
from kvlab.sharing.writer import Passage, Writer

if TYPE_CHECKING:
    from kvlab.load.spec import LoadResult, Prompt

HITS, QUERIES, PROMPTS = "prefix_hits_tokens_total", "prefix_queries_tokens_total", "prompt_tokens_total"
COUNTERS = (PROMPTS, QUERIES, HITS)
BESIDE = ("requests_total", "preemptions_total")
"""Counters that explain a difference."""
ANSWER_TOKENS = 1


class Sent(NamedTuple):
    """One request that was answered or failed, and its cached tokens by usage, or else by the engine's counter."""

    row: RequestRow
    cached: int | None

    @property
    def ttft(self) -> float | None:
        """Time to first token in seconds; None for a request that failed."""
        return self.row.ttft if self.row.error is None else None


class Account:
    """What one part of the experiment sent, and how the engine's counters grew meanwhile."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.rows: list[RequestRow] = []
        self._grown: dict[str, float] = {}
        self._lost: set[str] = set()

    def add(self, rows: Sequence[RequestRow], samples: Sequence[MetricSample]) -> None:
        """The rows of one load, and the metrics before, during and after it."""
        self.rows += rows
        growth = grown(samples)
        for word in (*COUNTERS, *BESIDE):
            if word in growth:
                self._grown[word] = self._grown.get(word, 0.0) + growth[word]
            else:
                self._lost.add(word)

    def counted(self, word: str) -> int | None:
        """By how much a counter grew over the whole part; None when some load of it did not see it."""
        return None if word in self._lost or word not in self._grown else round(self._grown[word])


class Line:
    """Sends prompts to one server, one after another. `part` says on whose account."""

    def __init__(self, url: str, known: Known, writer: Writer) -> None:
        self.known = known
        self.writer = writer
        self.accounts: list[Account] = []
        self.single = False
        """Whether the counters are read around each request, because usage does not state cached tokens."""
        self._url = url

    @contextmanager
    def part(self, name: str) -> Iterator[Account]:
        """What is sent inside is on this account."""
        self.accounts.append(Account(name))
        yield self.accounts[-1]

    def book(self, name: str, result: LoadResult) -> None:
        """The account of a load that was sent elsewhere; it tells whether usage states cached tokens."""
        with self.part(name) as account:
            account.add(result.rows, result.samples)
        silent = all(row.cached_tokens is None for row in result.rows)
        self.single = silent and HITS in grown(result.samples)

    def send(self, prompts: Sequence[Prompt], salt: str | None = None) -> list[Sent]:
        """The prompts in order, each when the one before is answered; failed ones are among the answers.

        Raises ServerRefused when the server answers none of them.
        """
        from kvlab.load.runner import run_load
        from kvlab.load.server import metrics_of
        from kvlab.load.spec import LoadSpec

        spec = LoadSpec(concurrency=1, ignore_eos=False, extra={} if salt is None else {"cache_salt": salt})
        metrics = metrics_of(self.known.engine)
        found = []
        for group in [[prompt] for prompt in prompts] if self.single else [list(prompts)]:
            result = run_load(self._url, group, spec, metrics=metrics)
            self.accounts[-1].add(result.rows, result.samples)
            counted = grown(result.samples).get(HITS) if self.single else None
            found += [Sent(row, _cached(row, counted)) for row in result.rows]
        return found

    def prompt(self, name: str, *passages: Passage) -> Prompt:
        """One prompt made of passages, to be answered with a single token."""
        from kvlab.load.spec import Prompt

        whole = self.writer.joined(*passages)
        if isinstance(whole, str):
            return Prompt(id=name, output_tokens=ANSWER_TOKENS, text=whole)
        return Prompt(id=name, output_tokens=ANSWER_TOKENS, token_ids=whole, expected_prompt_tokens=len(whole))


def grown(samples: Sequence[MetricSample]) -> dict[str, float]:
    """By how much each counter grew from the first sample to the last; one that fell was reset and is left out."""
    if len(samples) < 2:
        return {}
    first, last = samples[0].values, samples[-1].values
    words = [word for word in (*COUNTERS, *BESIDE) if word in first and word in last]
    return {word: last[word] - first[word] for word in words if last[word] >= first[word]}


def _cached(row: RequestRow, counted: float | None) -> int | None:
    """Cached tokens of a request: what usage states, else what the engine counted while it ran alone."""
    if row.error is not None:
        return None
    if row.cached_tokens is not None:
        return row.cached_tokens
    # More than the prompt has is another client's.
    return None if counted is None or counted > (row.prompt_tokens or counted) else round(counted)
