"""What is quoted of a log line."""

from __future__ import annotations

import re

from kvlab.core.observation import Said, read_line


def test_a_printed_configuration_is_quoted_around_the_value() -> None:
    # vLLM prints its whole configuration on one line of some 4,000 characters
    start = "(EngineCore pid=7462) INFO 11-30 02:46:23 [core.py:133] Initializing a V1 engine with config: "
    line = start + "skip_tokenizer_init=False, " * 60 + "kv_cache_dtype=fp8, " + "enforce_eager=False, " * 60
    said = Said("kv_cache_dtype", "word", re.compile(r"with config: .*kv_cache_dtype=(\w+)"))
    (seen,) = read_line(line, 1, (said,))
    assert seen.value == "fp8"
    assert len(seen.line) < 400
    assert seen.line.startswith("(EngineCore pid=7462) INFO 11-30 02:46:23")
    assert "kv_cache_dtype=fp8, enforce_eager" in seen.line


def test_a_line_of_ordinary_length_is_quoted_whole() -> None:
    line = "INFO 11-30 02:47:53 [kv_cache_utils.py:2327] GPU KV cache size: 55,356 tokens\n"
    (seen,) = read_line(line, 1, (Said("kv_tokens", "tokens", re.compile(r"KV cache size: ([\d,]+) tokens")),))
    assert (seen.value, seen.line) == (55356.0, line.strip())
