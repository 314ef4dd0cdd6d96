"""A real llama-server: what is planned is what it says, and its failures are explained from its own log.

The embedded one; with $LLAMA_SERVER set, that binary as well: `make test-llama SERVER=/path/to/llama-server`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvlab import api
from kvlab.core.errors import EngineFailed
from kvlab.core.plan import Plan
from kvlab.launch import Command, Server, command

pytestmark = pytest.mark.e2e

SERVERS = ("embedded", *(("llama-server",) if os.environ.get("LLAMA_SERVER") else ()))
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "one slot": {"context": 1024, "parallel": 1},
    "four slots": {"context": 8192, "parallel": 4},
    "four slots of one pool": {"context": 8192, "parallel": 4, "kv_unified": True},
    "q8_0": {"context": 4096, "parallel": 2, "kv_dtype": "q8_0"},
    "q4_0 of one pool": {"context": 4096, "parallel": 2, "kv_dtype": "q4_0", "kv_unified": True},
    "q8_0 keys, q4_0 values": {"context": 4096, "parallel": 1, "kv_dtype_k": "q8_0", "kv_dtype_v": "q4_0"},
    "bf16": {"context": 2048, "parallel": 1, "kv_dtype": "bf16"},
    "windows in full": {"context": 4096, "parallel": 2, "swa_full": True},
    "small micro-batches": {"context": 8192, "parallel": 1, "ubatch": 128},
    "a context below the micro-batch": {"context": 256, "parallel": 1},
    "no flash attention": {"context": 4096, "parallel": 3, "kv_dtype_k": "q8_0", "flash-attn": "off"},
    "cache not on the device": {"context": 4096, "parallel": 1, "no-kv-offload": "true"},
    "no prompts beside the cache": {"context": 4096, "parallel": 2, "cache-ram": "0"},
    "f32, no prefixes": {"context": 4096, "parallel": 2, "kv_dtype": "f32", "prefix_caching": False},
    "three users on this machine": {"context": 4096, "users": 3, "gpu": "cpu"},
    "as many slots as a pool holds": {"pool_gib": 0.05, "context": 2048, "kv_dtype": "iq4_nl"},
}
WITH_BUDGET = {"three users on this machine"}
"""The others state no GPU, so that no weights are planned to compare."""


def planned(gemma: Path, server: str, asked: dict[str, Any]) -> Plan:
    options = {key: value for key, value in asked.items() if "-" not in key}
    arguments = {key: value for key, value in asked.items() if "-" in key}
    if server == "embedded":
        arguments["embedded"] = "true"
    return api.plan(gemma, engine="llamacpp", engine_args=arguments, **options)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("server", SERVERS)
def test_every_line_agrees(gemma: Path, tmp_path: Path, server: str, name: str) -> None:
    plan, log = planned(gemma, server, CONFIGURATIONS[name]), tmp_path / "engine.log"
    with Server(command(plan), log) as running:
        running.wait_ready(60)
    check = api.check(log, plan=plan)
    assert {row.name: row.verdict for row in check.rows if row.verdict != "agrees"} == {}
    assert len(check.rows) == 20 + 2 * (name in WITH_BUDGET)
    assert api.explain(log).findings == ()


Change = Callable[[Command, Path], Command]


def words(**replaced: str) -> Change:
    """The command with the values of flags replaced: cache_type_v is --cache-type-v's."""

    def change(what: Command, _: Path) -> Command:
        argv = list(what.argv)
        for name, value in replaced.items():
            argv[argv.index(f"--{name.replace('_', '-')}") + 1] = value
        return msgspec.structs.replace(what, argv=tuple(argv))

    return change


def more(*added: str) -> Change:
    """The command with words after it."""
    return lambda what, _: msgspec.structs.replace(what, argv=(*what.argv, *added))


def model(data: Callable[[bytes], bytes] | None) -> Change:
    """The command with another model file: `data` of the first bytes of the true one, or none at all."""

    def change(what: Command, folder: Path) -> Command:
        path = folder / "other.gguf"
        if data is not None:
            with Path(what.argv[what.argv.index("--model") + 1]).open("rb") as whole:
                path.write_bytes(data(whole.read(2_000_000)))
        return words(model=str(path))(what, folder)

    return change


def little_memory(what: Command, _: Path) -> Command:
    """The command with 6 GiB of addresses, for a cache that takes as much alone."""
    limited = ("/bin/sh", "-c", f'ulimit -v {6 << 20}; exec "$@"', "sh", *what.argv)
    large = words(ctx_size=str(64 * 32_768), parallel="64")
    return large(msgspec.structs.replace(what, argv=limited), Path())


FAILURES: dict[str, tuple[str, Change, str, str]] = {
    # what is wrong: (rule, change of the command, what the start says, what explain says)
    "values without flash attention": (
        "quantised_values_need_flash_attention",
        lambda what, folder: more("--flash-attn", "off")(words(cache_type_v="q4_0")(what, folder), folder),
        "needs flash attention",
        "flash attention is off",
    ),
    "a cut model": ("model_broken", model(lambda data: data), "damaged or incomplete", "cut short"),
    "an empty model": ("model_broken", model(lambda data: b""), "damaged or incomplete", "cut short"),
    "no GGUF file": ("model_broken", model(lambda data: b"PK" + data), "damaged or incomplete", "cut short"),
    "no model": ("model_not_found", model(None), "cannot be opened", "neither a folder"),
    "no such dtype": (
        "cache_dtype_refused",
        words(cache_type_k="fp8"),
        r"not one of llama\.cpp's",
        "no llama.cpp type",
    ),
    "no such flag": ("flag_unknown", more("--no-such-flag"), "invalid argument: --no-such-flag", "is not a flag"),
    "too large a context": ("out_of_memory_sizing", little_memory, "[Mm]emory ran out", " MiB more were asked for"),
}


@pytest.mark.parametrize("wrong", FAILURES)
@pytest.mark.parametrize("server", SERVERS)
def test_a_failure_is_noticed_early_and_explained(gemma: Path, tmp_path: Path, server: str, wrong: str) -> None:
    code, change, said, why = FAILURES[wrong]
    plan, log = planned(gemma, server, {"context": 1024, "parallel": 1}), tmp_path / "engine.log"
    with Server(change(command(plan), tmp_path), log) as running, pytest.raises(EngineFailed, match=said):
        running.wait_ready(60)
    (finding,) = api.explain(log).findings
    assert (finding.code, finding.certainty) == (code, "certain")
    assert why in finding.why


@pytest.mark.parametrize("server", SERVERS)
def test_a_taken_port_is_explained(gemma: Path, tmp_path: Path, server: str) -> None:
    """The server itself says it: kvlab asks before the start, so another may still come first."""
    plan, log = planned(gemma, server, {"context": 1024, "parallel": 1}), tmp_path / "engine.log"
    what = command(plan)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", what.port))
        taken.listen()
        with Server(what, log) as running, pytest.raises(EngineFailed, match="port is taken"):
            running.wait_ready(60)
    (finding,) = api.explain(log).findings
    assert finding.code == "port_in_use"
    assert f"port {what.port}" in finding.why
