"""The words of the metrics and each engine's own names as one Markdown document: docs/metrics.md is what this gives."""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.core.metric_map import MetricMap
from kvlab.core.vocabulary import WORDS

_HEAD = """# What kvlab reads in an engine's metrics

Generated from src/kvlab/engines/*/metrics.py by `python scripts/metric_words.py`; a test keeps it so. Every engine and
release has names of its own; kvlab knows one word for each quantity. A word whose metric an engine does not serve is
unknown, never zero, and so is one whose number cannot be true (not a number, below zero, above 2^60, a ratio above 1).

What the names were held against: vLLM 0.32 and llama-server ran here; scrapes of vLLM (2024, 2025) and SGLang (early
2025, 0.5.17) were recorded by others; the names of LMDeploy and TensorRT-LLM are those of their source alone. Those of
tiers were written by the metric classes of vLLM 0.32, SGLang 0.5.17 and 0.5.23, and LMCache 0.5.6: no GPU ran them.

How label sets combine: requests and counters are those of the whole server. `kv_used_ratio` is that of the fullest
pool, and capacity is that of the smallest, because they are not to be multiplied: where a server has several pools
(vLLM's and LMDeploy's engines, SGLang's DP ranks, several models), each pool's own numbers are read apart. Ranks that
repeat one pool count once. Of several names the newest that is served counts, alone.

Counters and histograms run from the engine's start. Two scrapes make a window: rates are differences over its seconds,
and percentiles are of the observations made in it. A histogram tells in which bucket a percentile lies; the estimate
inside it is that of Prometheus' `histogram_quantile`, and in the last bucket there is none. When a counter fell, a
histogram lost observations, the process has another start, or pools came or went, the engine was started again and
the window says nothing.

What misleads, whoever reads it:

- vLLM's `kv_used_ratio` is a share of `kv_usable_blocks`, one less than `num_gpu_blocks`: V1 keeps one block empty.
  `kv_tokens` and `max_concurrency` count that block. With caches of several kinds `kv_tokens` is not
  `num_gpu_blocks` x `block_size`.
- The ratio counts blocks of running requests. What lies in the prefix cache unused counts as free.
- vLLM counts a preemption when its victim runs again, which may be a minute later, and what is computed again is in no
  token counter. `waiting_capacity` tells earlier.
- SGLang's front end counts prompts and hits when a request ends; `sglang:cache_hit_rate` is one batch's and is not
  read. `sglang:num_retracted_reqs` is a gauge of the last batch; the counter has `requests` in its name.
- Gaps between tokens (`itl_seconds`) and a request's mean (`tpot_seconds`) are not the same distribution, and names do
  not tell: vLLM's and early SGLang's `time_per_output_token_seconds` is of tokens, TensorRT-LLM's of requests.
- llama-server's `prompt_tokens_total` leaves cached tokens out. Reading its page resets its two averages, so one
  reader only. It has no gauge of the cache: the tokens of working slots are counted instead.
- TensorRT-LLM's `/metrics` is JSON that whoever reads it empties; kvlab asks `/prometheus/metrics`.
- Tiers. vLLM's `host_tier_used_ratio` is what transfers and hits hold at the moment: 0 is an idle tier, not an empty
  one, and stores are refused at 1. vLLM leaves what a tier held out of `prefix_hits_tokens_total` and counts it in
  `external_hits_tokens_total`; SGLang has one counter for all, so there the hits of a tier are a part of it (with their
  tier since 0.5.9). `external_queries_tokens_total` counts prompts that were never seen before, too.
- LMCache in vLLM's processes writes `lmcache:` series to vLLM's page. `lookup_hit_rate` and the other rates are of its
  last interval and are not read. Every rank counts a hit, so they are not added up. `lmcache server`, a Mooncake master
  (port 9003) and the stores behind them have pages of their own, which kvlab does not ask; hits in them show here.
- llama-server's prompt cache in host memory (`--cache-ram`) has no metric: its log states it.
- Ollama has no metrics page at all; TGI's has neither the cache nor prefix hits, and no word is read from it.
"""


def document(maps: Mapping[str, MetricMap]) -> str:
    """The words with their meaning, then every engine's names for them. `maps`: by the engine's title.

    Raises KeyError when a map has a word that is not described here.
    """
    named = {title: _names(metrics) for title, metrics in maps.items()}
    known = {word for words in WORDS.values() for word in words}
    unknown = sorted(set().union(*named.values()) - known)
    if unknown:
        raise KeyError(f"no meaning stated for {', '.join(unknown)}")
    words = [_words(kind, words) for kind, words in WORDS.items()]
    return "\n".join((_HEAD, *words, *(_engine(title, metrics, named[title]) for title, metrics in maps.items())))


def _words(kind: str, words: Mapping[str, str]) -> str:
    rows = "\n".join(f"| `{word}` | {what} |" for word, what in words.items())
    return f"## {kind}\n\n| word | what |\n| --- | --- |\n{rows}\n"


def _engine(title: str, metrics: MetricMap, names: Mapping[str, list[str]]) -> str:
    pages = ", ".join(f"`{path}`" for path in (*metrics.paths, *metrics.info_paths))
    pools = (
        f" Pools are told apart by {' and '.join(f'`{label}`' for label in metrics.pools)}." if metrics.pools else ""
    )
    ordered = [word for words in WORDS.values() for word in words if word in names]
    rows = "\n".join(f"| `{word}` | {'; '.join(names[word])} |" for word in ordered)
    return (
        f"## {title}\n\nPages: {pages}.{pools}\n\n| word | its own names, the newest first |\n| --- | --- |\n{rows}\n"
    )


def _names(metrics: MetricMap) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for series in metrics.series:
        if series.word.startswith("_"):
            continue
        labels = ",".join(f'{key}="{value}"' for key, value in series.only.items())
        chosen = f"{{{labels}}}" if labels else ""
        added = "".join(f" + `{name}`" for name in series.plus)
        label = f", label `{series.label}`{_since(metrics, series.label)}" if series.label else ""
        found.setdefault(series.word, []).extend(
            f"`{name}{chosen}`{added}{label}{_since(metrics, name)}" for name in series.names
        )
    for word, names in metrics.histograms.items():
        found[word] = [f"`{name}`{_since(metrics, name)}" for name in names]
    for word, text in metrics.told.items():
        found.setdefault(word, []).append(text)
    return found


def _since(metrics: MetricMap, name: str) -> str:
    return f" ({metrics.versions[name]})" if name in metrics.versions else ""
