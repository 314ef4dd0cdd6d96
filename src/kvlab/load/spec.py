"""What a load run is asked to do, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.measure import MetricSample, PoolUse, RequestRow

Endpoint = Literal["completions", "chat"]
MOST_PROCESSES = 64


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request to send: a text, a list of chat messages, or token ids (exactly one of the three)."""

    id: str
    output_tokens: int
    """Tokens to generate at most (exactly, where the engine honours `ignore_eos`)."""
    text: str | None = None
    messages: tuple[dict[str, object], ...] | None = None
    token_ids: tuple[int, ...] | None = None
    expected_prompt_tokens: int | None = None
    """Prompt tokens that the engine must count for /v1/completions; None when the length is not controlled."""
    follows: str | None = None
    """Id of the prompt just before this one in the list, whose answer must have arrived before this one is sent."""
    continues: bool = False
    """Whether what that request sent, and the server's answer to it, go before these messages."""
    more: dict[str, object] = {}
    """Further keys of this request's body (tools)."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How the certificate of an https server is checked."""

    ca_file: str | None = None
    """A PEM file with the authorities to trust, in place of the system's."""
    insecure: bool = False
    """Take any certificate: whoever answers at the address is believed."""


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that changes over the run, from the first request's to the last one's, in requests a second."""

    start: float
    end: float
    shape: Literal["linear", "exponential"] = "linear"

    def __post_init__(self) -> None:
        for rate in (self.start, self.end):
            if not 0 < rate < float("inf"):
                raise BadInput(f"the ramp's rate {rate:g} must be a positive number of requests a second")


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to send: a closed loop (`concurrency` requests in flight), or an open one.

    An open loop has a `rate` (requests a second), a `ramp`, or `arrivals` (a time for each request). There
    `concurrency` caps the requests in flight when it is given; a request that waits for its turn keeps its scheduled
    start, so the wait counts. Times are seconds.
    """

    concurrency: int | None = None
    rate: float | None = None
    burstiness: float = 1.0
    """Shape of the gamma distribution of the gaps between requests: 1 is Poisson, less is bursts, inf is even."""
    ramp: Ramp | None = None
    arrivals: tuple[float, ...] | None = None
    """When each request is due, in seconds from the start."""
    seed: int = 0
    endpoint: Endpoint = "completions"
    model: str | None = None
    """Name that the server knows the model by; None: the first one it lists."""
    ignore_eos: bool = True
    temperature: float | None = 0.0
    timeout: float = 600.0
    """Longest time that one request may take from when it was sent, the waits between its tries included."""
    retries: int = 0
    """How often a request that is answered 429 or 503 is sent again: after the server's Retry-After."""
    cancel_share: float = 0.0
    """Share of the requests that the client gives up `cancel_after` seconds after sending, if they are not done."""
    cancel_after: float | None = None
    tls: Tls = Tls()
    processes: int | Literal["auto"] = 1
    """Client processes that send the load; "auto": as many as it needs and the machine has processors to spare."""
    keep_text: bool = False
    """Keep the generated text in the rows."""
    extra: dict[str, object] = {}
    """Further keys of the request body; None takes a key out."""
    sample_every: float = 0.5
    """Pause between two reads of the engine's metrics."""

    def __post_init__(self) -> None:
        stated = [self.rate is not None, self.ramp is not None, self.arrivals is not None]
        if self.concurrency is None and not any(stated):
            raise BadInput("a load needs a concurrency (closed loop) or a rate (open loop)")
        if sum(stated) > 1:
            raise BadInput("a load has one of a rate, a ramp and arrival times, not several")
        if self.burstiness != 1 and self.rate is None and self.ramp is None:
            raise BadInput(f"burstiness {self.burstiness:g} is of an open loop: give a rate or a ramp too")
        if not self.burstiness > 0:
            raise BadInput(f"burstiness {self.burstiness:g} must be above 0: 1 is Poisson, less is bursts")
        if self.concurrency is not None and self.concurrency < 1:
            raise BadInput(f"concurrency {self.concurrency} must be at least 1")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise BadInput(f"rate {self.rate} must be a positive number of requests a second")
        if self.timeout <= 0:
            raise BadInput(f"timeout {self.timeout} must be a positive number of seconds")
        if self.retries < 0:
            raise BadInput(f"{self.retries} retries: give 0 or more")
        if not 0 <= self.cancel_share <= 1:
            raise BadInput(f"the share of cancelled requests is {self.cancel_share:g}, not between 0 and 1")
        if (self.cancel_share > 0) != (self.cancel_after is not None):
            raise BadInput("cancelled requests need both a share and a time after which they are cancelled")
        if self.cancel_after is not None and not 0 < self.cancel_after < float("inf"):
            raise BadInput(f"requests cannot be cancelled after {self.cancel_after:g} s; give a positive time")
        if self.processes != "auto" and not 1 <= self.processes <= MOST_PROCESSES:
            raise BadInput(f"{self.processes} client processes: give 1 to {MOST_PROCESSES}, or auto")
        if any(not 0 <= moment < float("inf") for moment in self.arrivals or ()):
            raise BadInput("an arrival time lies before the start of the run, or is no time")

    @property
    def is_open(self) -> bool:
        """Whether requests come at times of their own, whatever the server does."""
        return self.rate is not None or self.ramp is not None or self.arrivals is not None

    def given_arrivals(self, count: int) -> tuple[float, ...]:
        """The arrival times, one for each of `count`. Raises BadInput when there are more or fewer, or out of order."""
        given = self.arrivals or ()
        if len(given) != count:
            raise BadInput(f"{len(given)} arrival times were given for {count} requests")
        if any(a > b for a, b in pairwise(given)):
            raise BadInput("the arrival times are out of order: sort the requests by them")
        return given


class Progress(msgspec.Struct, frozen=True):
    """How far a run is."""

    phase: Literal["prompts", "warm-up", "load"]
    done: int
    total: int
    failed: int = 0

    @property
    def text(self) -> str:
        """What is counted, in words, with the failed requests."""
        failed = f", {self.failed} failed" if self.failed else ""
        return {"prompts": "prompts made", "warm-up": "warm-up requests", "load": "requests"}[self.phase] + failed


OnProgress = Callable[[Progress], None]


class ClientUse(msgspec.Struct, frozen=True, kw_only=True):
    """How busy the client was. Of several processes the busiest counts; times are seconds."""

    processes: int
    cpu_seconds: float
    """Processor time of all of them during the run."""
    cpu_share: float
    """Of one processor, by the busiest."""
    loop_busy_share: float
    """Share of the run in which the busiest event loop was at work or kept from it, and so blind to what arrived."""
    lag_mean: float
    """How long data that arrives at a random moment waits to be noticed, on average."""
    lag_p99: float
    """The same for one arrival in a hundred; 0.5 ms where it is less than that."""
    late_p99: float | None = None
    """Open loop without a cap: how late one request in a hundred was sent."""
    bottleneck: bool | None = None
    """Whether the client held the load back or blurred its times; None: the run was too short to tell."""
    because: str = ""


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: one row per request in sending order, `duration` in seconds, what the metrics said."""

    rows: tuple[RequestRow, ...]
    duration: float
    samples: tuple[MetricSample, ...] = ()
    pool: PoolUse = PoolUse()
    model: str
    client_cpu_seconds: float
    """Processor time of this client during the run, all its processes together."""
    client: ClientUse | None = None

    @property
    def failed(self) -> int:
        """Requests that did not complete, without those that the client cancelled."""
        return sum(row.error is not None and not row.cancelled for row in self.rows)

    @property
    def cancelled(self) -> int:
        """Requests that the client gave up on purpose."""
        return sum(row.cancelled for row in self.rows)

    @property
    def completed(self) -> int:
        """Requests with a whole answer."""
        return sum(row.error is None for row in self.rows)
