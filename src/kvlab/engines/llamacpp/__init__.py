"""llama.cpp: the `llama-server` binary, or the same server embedded through the `xllamacpp` wheel."""

from __future__ import annotations

from kvlab.core.engine import Engine

ENGINE = Engine(name="llamacpp", title="llama.cpp", version="b11549", kv_flag="--cache-type-k/--cache-type-v")
