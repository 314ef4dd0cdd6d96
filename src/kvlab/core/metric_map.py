"""An engine's own metric names -> kvlab's words: the type of every engine folder's metrics.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kvlab.core.exposition import Sample, rows
from kvlab.core.scrape import Reading, believed
from kvlab.core.series import STARTED, Names, Series, by_pool


class MetricMap(msgspec.Struct, frozen=True, kw_only=True):
    """metrics.py: the engine's own metric names -> kvlab's words.

    A word whose metric is absent is absent, never zero. Seconds, tokens, bytes and shares of 1.

    Gauges: running, waiting, waiting_capacity, waiting_deferred (requests, all pools); kv_used_ratio (the fullest
    pool's), kv_used_tokens (all pools); kv_free_tokens, kv_evictable_tokens.
    Capacity, of the smallest pool: kv_tokens, max_concurrency, num_gpu_blocks, block_size, kv_usable_blocks (what
    vLLM's kv_used_ratio is a share of: num_gpu_blocks holds one that is always empty); max_running_requests, slots,
    n_ctx_slot. Where pools are several, multiply a share only by what its own pool holds (`Reading.pools`).
    Tiers below the GPU's cache: host_tier_used_ratio (the fullest pool's, as the engine counts use),
    host_tier_used_tokens (all pools), host_tier_used_bytes and storage_tier_used_bytes (all ranks); of the smallest
    pool host_tier_tokens and host_tier_bytes. storage: on a disk or in a store, which engines do not tell apart.
    Counters since the engine's start: preemptions_total, requests_total (finished), prompt_tokens_total (cached ones
    too), prefill_tokens_total (computed ones only), generation_tokens_total, prefix_queries_tokens_total,
    prefix_hits_tokens_total, external_queries_tokens_total, external_hits_tokens_total (what was found beyond the GPU,
    where the engine leaves it out of prefix_hits_tokens_total), host_hits_tokens_total, storage_hits_tokens_total and
    peer_hits_tokens_total (by the tier that held them, whichever of the two they are counted in),
    offload_loaded_bytes_total, offload_stored_bytes_total, offload_loading_seconds_total,
    offload_storing_seconds_total, offload_refused_total, drafted_tokens_total, accepted_tokens_total;
    prefill_seconds_total and decode_seconds_total, where an engine has no histograms. started_at: when its process
    began (Unix time).
    Histograms: ttft_seconds, itl_seconds (between two tokens), tpot_seconds (a request's mean), queue_seconds,
    prefill_seconds, decode_seconds, e2e_seconds, request_prompt_tokens, request_generation_tokens, iteration_tokens.
    """

    prefix: str
    """What the names of the engine's own series begin with."""
    beside: tuple[str, ...] = ()
    """What the names of others begin with that write to the engine's page (LMCache)."""
    paths: tuple[str, ...]
    """The pages that are polled; the first is Prometheus text where `series` is not empty."""
    info_paths: tuple[str, ...] = ()
    """Pages about the server itself, asked once and not polled: the first of them that answers."""
    series: tuple[Series, ...] = ()
    histograms: Mapping[str, tuple[str, ...]] = {}
    """Word -> the engine's names, newest first."""
    pools: tuple[str, ...] = ()
    """Labels that tell the pools of one server apart."""
    more: Callable[[Mapping[str, str], Mapping[str, float]], Mapping[str, float]] | None = None
    """(pages, values of `series`) -> all values, where other pages or several series state a word."""
    told: Mapping[str, str] = {}
    """Word -> what `more` reads it from, in words."""
    versions: Mapping[str, str] = {}
    """Name of a series -> the releases that serve it, where not all do."""

    def read(self, pages: Mapping[str, str]) -> dict[str, float]:
        """Texts by path ("/metrics", "/slots") -> values by word. Raises BadInput when a page is not what it is."""
        return self._values(pages, Names(self._rows(pages), self.pools))[0]

    def reading(self, engine: str, pages: Mapping[str, str]) -> Reading:
        """All that the pages say. Raises BadInput as `read` does."""
        rows = self._rows(pages)
        names = Names(rows, self.pools)
        values, lines = self._values(pages, names)
        histograms, sums = names.histograms(self.histograms)
        return Reading(
            engine=engine,
            values=values,
            histograms=histograms,
            lines={**lines, **sums},
            pools={
                name: self._values({}, Names(of_pool, self.pools))[0]
                for name, of_pool in by_pool(rows, self.pools).items()
            },
        )

    def _rows(self, pages: Mapping[str, str]) -> list[tuple[str, Sample]]:
        return rows(pages[self.paths[0]]) if self.series and self.paths[0] in pages else []

    def _values(self, pages: Mapping[str, str], names: Names) -> tuple[dict[str, float], dict[str, str]]:
        stated, lines = names.stated((*self.series, STARTED))
        values = believed(stated if self.more is None else self.more(pages, stated))
        return values, {word: lines.get(word) or self.told.get(word, "") for word in values}
