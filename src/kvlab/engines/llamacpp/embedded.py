"""llama.cpp's own server from the `xllamacpp` wheel, run as `python -m kvlab.engines.llamacpp.embedded FLAGS`.

Takes the flags of llama-server that kvlab launches it with, so that the printed command and what runs are the same.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from typing import NoReturn

from kvlab.engines._llama.cells import STORAGES


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        said = (
            f"error while handling argument: {message}" if unknown == message else f"error: invalid argument: {unknown}"
        )
        sys.stderr.write(f"{said}\n")  # in llama-server's words
        raise SystemExit(1)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="llama-server (embedded)", allow_abbrev=False)
    parser.add_argument("--model", "-m", required=True)
    parser.add_argument("--ctx-size", "-c", type=int, default=0)
    parser.add_argument("--parallel", "-np", type=int, default=1)
    parser.add_argument("--kv-unified", "-kvu", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--cache-type-k", "-ctk", choices=STORAGES, default="f16")
    parser.add_argument("--cache-type-v", "-ctv", choices=STORAGES, default="f16")
    parser.add_argument("--batch-size", "-b", type=int)
    parser.add_argument("--ubatch-size", "-ub", type=int, default=512)
    parser.add_argument("--threads", "-t", type=int)
    parser.add_argument("--threads-http", type=int)
    parser.add_argument("--gpu-layers", "-ngl", type=int)
    parser.add_argument("--no-kv-offload", "-nkvo", action="store_true")
    parser.add_argument("--flash-attn", "-fa", choices=("on", "off", "auto"), default="auto")
    parser.add_argument("--cache-ram", "-cram", type=int)
    parser.add_argument("--ctx-checkpoints", type=int)
    parser.add_argument("--slot-prompt-similarity", "-sps", type=float)
    parser.add_argument("--no-cache-prompt", action="store_true")
    parser.add_argument("--alias", "-a")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    parser.add_argument("--swa-full", action="store_true")
    parser.add_argument("--log-verbosity", "-lv", type=int, default=4)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal arrives, then leave with 0. Returns 1 when the model does not load."""
    from xllamacpp import CommonParams, Server, ggml_type, llama_flash_attn_type

    options = _parser().parse_args(argv)
    params = CommonParams()
    params.model.path = options.model
    params.n_ctx, params.n_parallel, params.kv_unified = options.ctx_size, options.parallel, options.kv_unified
    params.cache_type_k = getattr(ggml_type, f"GGML_TYPE_{options.cache_type_k.upper()}")
    params.cache_type_v = getattr(ggml_type, f"GGML_TYPE_{options.cache_type_v.upper()}")
    params.n_ubatch, params.swa_full = options.ubatch_size, options.swa_full
    params.flash_attn_type = getattr(llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{_FLASH[options.flash_attn]}")
    params.endpoint_metrics, params.endpoint_slots = options.metrics, options.slots
    params.hostnames, params.port, params.verbosity = [options.host], options.port, options.log_verbosity
    params.cache_prompt, params.no_kv_offload = not options.no_cache_prompt, options.no_kv_offload
    params.ui = False
    for name, value in (
        ("n_batch", options.batch_size),
        ("n_gpu_layers", options.gpu_layers),
        ("n_threads_http", options.threads_http),
        ("cache_ram_mib", options.cache_ram),
        ("n_ctx_checkpoints", options.ctx_checkpoints),
        ("slot_prompt_similarity", options.slot_prompt_similarity),
    ):
        if value is not None:
            setattr(params, name, value)
    if options.threads is not None:
        params.cpuparams.n_threads = options.threads
    if options.alias:
        params.model_alias = {options.alias}
    ended = _leave_on_signals()
    try:
        _serving = Server(params)
    except (RuntimeError, ValueError) as error:
        sys.stderr.write(f"exiting due to model loading error: {error}\n")
        return 1
    ended.join()
    return 0


_FLASH = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}


def _leave_on_signals() -> threading.Thread:
    """A thread that ends the process at SIGTERM or SIGINT, also while the model loads.

    The signals are blocked in every thread, so that this one receives them. Taking the server down in order would wait
    for the requests in flight: for ever, if a client does not read on.
    """
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)

    def leave() -> None:
        signal.sigwait(stop)
        os._exit(0)

    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    return thread


if __name__ == "__main__":
    raise SystemExit(main())
