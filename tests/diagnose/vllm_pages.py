"""Pages of a vLLM 0.32 server at work: a real server's own page with the numbers of another load in it."""

from __future__ import annotations

import math
import re
from pathlib import Path

REAL = Path(__file__).parents[1] / "golden" / "vllm" / "metrics" / "0.32.0_cpu_two_requests.prom"
_SAMPLE = re.compile(r"^(vllm:\w+)(\{[^}]*\})? (\S+)$")
_CACHE = re.compile(r'(num_gpu_blocks|kv_cache_size_tokens|block_size)="[^"]*"')


class Server:
    """A server whose counters and histograms move on; `page` is what it would serve now."""

    def __init__(self, **stated: int) -> None:
        self.gauges: dict[str, float] = {}
        self.counters: dict[str, float] = {}
        self._seen: dict[str, list[tuple[float, int]]] = {}
        self._stated = stated
        """Labels of cache_config_info."""

    def gauge(self, **values: float) -> None:
        self.gauges |= values

    def count(self, **grown: float) -> None:
        """Counters, without vllm: and _total; "__" stands before the value of a label."""
        for name, value in grown.items():
            self.counters[name] = self.counters.get(name, 0) + value

    def observe(self, name: str, *seen: tuple[float, int]) -> None:
        """Observations of a histogram: (value, how often)."""
        self._seen.setdefault(name, []).extend(seen)

    def page(self) -> str:
        return "\n".join(map(self._line, REAL.read_text().split("\n")))

    def _line(self, line: str) -> str:
        match = _SAMPLE.match(line)
        if match is None:
            return line
        name, labels, old = match.groups()
        if name == "vllm:cache_config_info":
            return _CACHE.sub(
                lambda found: f'{found[1]}="{self._stated.get(found[1], found[0].split(chr(34))[1])}"', line
            )
        gauge, grown = self._gauge(name, labels or ""), self._grown(name, labels or "")
        told = float(old) + grown if gauge is None else gauge
        return f"{name}{labels or ''} {told!r}"

    def _gauge(self, name: str, labels: str) -> float | None:
        return next((value for plain, value in self.gauges.items() if _is(plain, name, labels)), None)

    def _grown(self, name: str, labels: str) -> float:
        """What the server did beside what the real one had done."""
        counted = sum(
            value for plain, value in self.counters.items() if _is(plain, name.removesuffix("_total"), labels)
        )
        for plain, seen in self._seen.items():
            bound = re.search(r'le="([^"]+)"', labels)
            if name == f"vllm:{plain}_bucket" and bound is not None:
                return float(sum(count for value, count in seen if value <= float(bound[1].replace("+Inf", "inf"))))
            if name == f"vllm:{plain}_count":
                return float(sum(count for _, count in seen))
            if name == f"vllm:{plain}_sum":
                return math.fsum(value * count for value, count in seen)
        return float(counted) if name.endswith("_total") else 0.0


def _is(plain: str, name: str, labels: str) -> bool:
    """Whether "name__label" is that series."""
    base, _, label = plain.partition("__")
    return name == f"vllm:{base}" and (not label or f'"{label}"' in labels)


TTFT, ITL = "time_to_first_token_seconds", "inter_token_latency_seconds"


def _start(**stated: int) -> Server:
    """A server that has worked for a while, so that what counts is the window and not the total."""
    server = Server(**stated)
    server.count(num_preemptions=7, prompt_tokens=4e6, generation_tokens=9e5, request_success__length=2_000)
    server.count(prefix_cache_queries=4e6, prefix_cache_hits=2.4e6)
    server.count(prompt_tokens_by_source__local_compute=1.6e6, prompt_tokens_by_source__local_cache_hit=2.4e6)
    server.observe(TTFT, (0.08, 1_500), (0.2, 500))
    server.observe(ITL, (0.02, 898_000))
    return server


def _prompts(server: Server, computed: float, hit: float) -> None:
    """Prompt tokens of which `computed` were not found."""
    asked = computed / (1 - hit)
    server.count(prompt_tokens=asked, prefix_cache_queries=asked, prefix_cache_hits=asked * hit)
    server.count(prompt_tokens_by_source__local_compute=computed, prompt_tokens_by_source__local_cache_hit=asked * hit)


def capacity(seconds: int = 30, **stated: int) -> tuple[str, str]:
    """The pool at 99 %, 42 running, 19 waiting, 0.6 preemptions a second."""
    server = _start(**stated)
    server.gauge(num_requests_running=42, num_requests_waiting=19, kv_cache_usage_perc=0.99)
    server.gauge(num_requests_waiting_by_reason__capacity=19, num_requests_waiting_by_reason__deferred=0)
    first = server.page()
    server.count(num_preemptions=round(0.6 * seconds), generation_tokens=1_100 * seconds, request_success__length=66)
    _prompts(server, 2_500 * seconds, 0.4)
    server.observe(TTFT, (0.9, 20), (6.0, 46))
    server.observe(ITL, (0.03, 31_000), (0.09, 2_000))
    return first, server.page()


def prefix(seconds: int = 30, computed: int = 30_000, hit: float = 0.05, **stated: int) -> tuple[str, str]:
    """30,000 prompt tokens computed a second at 5 % hits, 95 % of first tokens within 2.6 s, the pool at 62 %."""
    server = _start(**stated)
    server.gauge(num_requests_running=58, num_requests_waiting=0, kv_cache_usage_perc=0.62)
    server.gauge(num_requests_waiting_by_reason__capacity=0, num_requests_waiting_by_reason__deferred=0)
    first = server.page()
    server.count(generation_tokens=1_200 * seconds, request_success__length=220)
    _prompts(server, computed * seconds, hit)
    server.observe(TTFT, (0.8, 120), (1.9, 80), (2.6, 20))
    server.observe(ITL, (0.03, 30_000), (0.04, 6_000))
    return first, server.page()


def bandwidth(seconds: int = 30, **stated: int) -> tuple[str, str]:
    """96 running, none waiting, the pool at 70 %, 1,900 tokens a second, 95 % of them within 70 ms."""
    server = _start(**stated)
    server.gauge(num_requests_running=96, num_requests_waiting=0, kv_cache_usage_perc=0.70)
    server.gauge(num_requests_waiting_by_reason__capacity=0, num_requests_waiting_by_reason__deferred=0)
    first = server.page()
    server.count(generation_tokens=1_900 * seconds, request_success__length=150)
    _prompts(server, 600 * seconds, 0.7)
    server.observe(TTFT, (0.15, 120), (0.3, 30))
    server.observe(ITL, (0.048, 50_000), (0.07, 7_000))
    return first, server.page()


def healthy(seconds: int = 30) -> tuple[str, str]:
    """12 running, none waiting, 95 % of tokens within 20 ms."""
    server = _start()
    server.gauge(num_requests_running=12, num_requests_waiting=0, kv_cache_usage_perc=0.2)
    server.gauge(num_requests_waiting_by_reason__capacity=0, num_requests_waiting_by_reason__deferred=0)
    first = server.page()
    server.count(generation_tokens=700 * seconds, request_success__length=90)
    _prompts(server, 900 * seconds, 0.5)
    server.observe(TTFT, (0.09, 80), (0.3, 10))
    server.observe(ITL, (0.017, 21_000))
    return first, server.page()
