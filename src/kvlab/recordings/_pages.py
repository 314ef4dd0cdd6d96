"""One scrape's text as a reading: whose it is, by the names of its series."""

from __future__ import annotations

from collections import Counter

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.core.exposition import rows
from kvlab.core.scrape import Reading

# Servers and exporters that kvlab has no engine for: they publish how many run and wait, and nothing about the cache.
# https://huggingface.co/docs/text-generation-inference/reference/metrics
_STRANGERS = {
    "tgi_": ("tgi", {"tgi_batch_current_size": "running", "tgi_queue_size": "waiting"}),
    "ollama_": ("ollama", dict[str, str]()),
}


def of_text(text: str, engine: str | None) -> Reading:
    """The reading of a /metrics page.

    Raises BadInput when it is none, no known engine's and none was named, another engine's than the named one, or
    holds the series of two and none was named.
    """
    found, prefixes = rows(text), _prefixes()
    owners = {prefixes[prefix] for _, sample in found for prefix in prefixes if sample.name.startswith(prefix)}
    if engine is not None:
        if owners and engine not in owners:
            raise BadInput(f"the metrics are {' and '.join(sorted(owners))}'s, not {engine}'s; correct --engine")
        return engines.reading(engine, {engines.metric_map(engine).paths[0]: text})
    if len(owners) > 1:
        names = " and ".join(sorted(owners))
        raise BadInput(f"the page holds series of {names}; give one server's page, or name its engine with --engine")
    known = (*prefixes, *_STRANGERS)
    seen = Counter(prefix for _, sample in found for prefix in known if sample.name.startswith(prefix))
    if not seen:
        names = ", ".join(sorted({sample.name for _, sample in found})[:5])
        raise BadInput(f"no engine that kvlab knows has these metrics ({names}); name it with --engine")
    ((prefix, _),) = seen.most_common(1)
    if prefix in prefixes:
        name = prefixes[prefix]
        return engines.reading(name, {engines.metric_map(name).paths[0]: text})
    name, words = _STRANGERS[prefix]
    stated = [(words[sample.name], sample.value, line) for line, sample in found if sample.name in words]
    return Reading(
        engine=name,
        values={word: value for word, value, _ in stated},
        lines={word: line for word, _, line in stated},
    )


def engine_of(text: str) -> str | None:
    """The engine that kvlab knows whose series a /metrics page has most of; None when it has none or is no page."""
    try:
        found = rows(text)
    except BadInput:
        return None
    prefixes = _prefixes()
    seen = Counter(prefixes[prefix] for _, sample in found for prefix in prefixes if sample.name.startswith(prefix))
    return seen.most_common(1)[0][0] if seen else None


def _prefixes() -> dict[str, str]:
    return {map_.prefix: name for name in engines.names() if (map_ := engines.metric_map(name)).prefix}
