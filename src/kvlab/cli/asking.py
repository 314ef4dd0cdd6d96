"""The arguments that describe a deployment, shared by the verbs that plan one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from kvlab.cli.command import count, positive, tokens
from kvlab.cli.offload import add_offload
from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask

_OWN = "(default: the engine's own)"
_GPU = "chip-memory, as kvlab gpus lists them: h100-80gb, rtx4090-24gb, cpu (default: none, only costs are known)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every argument of contract `kvlab plan SOURCE`, source and --strict excepted."""
    _add_where(parser)
    _add_cache(parser)
    _add_memory(parser)
    add_offload(parser)
    _add_llama(parser)
    parser.add_argument(
        "--engine-arg",
        action="append",
        default=[],
        metavar="FLAG=VALUE",
        help="any other flag of the engine; repeatable. Those that change the cache are honoured",
    )


def _add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("engine and GPU")
    where.add_argument(
        "--engine", help="the engine, as kvlab engines lists them (default: vllm, and llamacpp for a .gguf)"
    )
    where.add_argument(
        "--engine-version", help="the version whose rules and log lines apply (default: the newest known)"
    )
    where.add_argument("--gpu", help=_GPU)
    where.add_argument("--gpu-gib", type=positive, help="usable memory of one GPU in GiB (default: that of --gpu)")
    where.add_argument(
        "--gpus", type=count, help="number of GPUs, tensor parallel unless said otherwise (default: --tp x --pp x --dp)"
    )
    for name, text, default in (
        ("tp", "tensor", "what --gpus leaves"),
        ("pp", "pipeline", "1"),
        ("dp", "data", "1"),
        ("dcp", "decode context", "1"),
        ("ep", "expert", "1"),
    ):
        where.add_argument(f"--{name}", type=count, help=f"{text} parallel size (default: {default})")


def _add_cache(parser: argparse.ArgumentParser) -> None:
    cache = parser.add_argument_group("cache")
    cache.add_argument("--kv-dtype", help="cache dtype in the engine's own words: fp8, q8_0 ... (default: its own)")
    cache.add_argument(
        "--context", help="longest request in tokens: 32768, 32k (k = 1,024) or native (default: native)"
    )
    cache.add_argument("--users", type=count, help="requests that should run together (default: not asked)")
    cache.add_argument("--block-size", type=count, help=f"tokens per block {_OWN}")
    cache.add_argument(
        "--max-num-batched-tokens", type=tokens("--max-num-batched-tokens"), help=f"tokens per scheduler step {_OWN}"
    )
    cache.add_argument("--max-num-seqs", type=count, help=f"requests decoded together at most {_OWN}")
    cache.add_argument(
        "--prefix-caching",
        action=argparse.BooleanOptionalAction,
        help=f"reuse shared prefixes, or read every prompt in full {_OWN}",
    )
    cache.add_argument(
        "--mamba-cache-mode",
        choices=("none", "align", "all"),
        help=f"recurrent states that are kept for reuse {_OWN}",
    )


def _add_memory(parser: argparse.ArgumentParser) -> None:
    memory = parser.add_argument_group("memory")
    memory.add_argument("--util", type=positive, help=f"share of GPU memory that the engine claims {_OWN}")
    memory.add_argument(
        "--weights-gib", type=positive, help="weights of the whole model (default: what the source holds or implies)"
    )
    memory.add_argument(
        "--overhead-gib", type=float, help="activations, graphs and context together, as measured (default: estimated)"
    )
    memory.add_argument(
        "--pool-gib", type=positive, help="cache pool per GPU as given (default: what the memory leaves)"
    )
    memory.add_argument(
        "--share",
        action="append",
        type=share,
        default=[],
        metavar="GIB|N%",
        help="memory of each GPU that a trainer or another engine holds: 20 (GiB) or 30%%; repeatable",
    )
    memory.add_argument(
        "--no-calibration",
        action="store_false",
        dest="calibration",
        default=None,
        help="leave out what kvlab check --learn saw of earlier starts on this GPU (default: use it)",
    )


def _add_llama(parser: argparse.ArgumentParser) -> None:
    llama = parser.add_argument_group("llama.cpp")
    llama.add_argument("--parallel", type=count, help="slots, -np (default: --users, what --pool-gib holds, or 4)")
    llama.add_argument(
        "--kv-unified",
        action=argparse.BooleanOptionalAction,
        help="one pool for all slots, or one each (default: one, unless slots, users or a pool are named)",
    )
    llama.add_argument("--kv-dtype-k", help="cache type of keys alone (default: --kv-dtype)")
    llama.add_argument("--kv-dtype-v", help="cache type of values alone (default: --kv-dtype)")
    llama.add_argument("--swa-full", action="store_true", help="window layers keep the whole context")
    llama.add_argument("--ubatch", type=count, help="tokens per micro-batch (default: 512)")


def ask(options: argparse.Namespace) -> Ask:
    """The request that the arguments state. Raises BadInput for a context that is no number."""
    from kvlab.core.units import parse_tokens

    given = vars(options)
    native = given["context"] in (None, "native")
    special = {"context", "engine_args", "share_gib", "share_fraction", "any_engine"}
    names = set(Ask.__struct_fields__) - special
    sums = {unit: sum(amount for amount, found in given["share"] if found == unit) for unit in ("gib", "fraction")}
    return Ask(
        context=None if native else parse_tokens(given["context"], "--context"),
        engine_args=tuple(engine_arg(text) for text in given["engine_arg"]),
        share_gib=sums["gib"] or None,
        share_fraction=sums["fraction"] or None,
        any_engine=given["engine"] is None,
        **{name: given[name] for name in names if given.get(name) is not None},
    )


def share(text: str) -> tuple[float, str]:
    """ "20", "20GiB", "20 GB" or "30%" as an amount and its unit ("gib" or "fraction"), for argparse."""
    plain = text.strip().lower()
    if plain.endswith("%"):
        return positive(plain[:-1].strip()) / 100, "fraction"
    for word, scale in (("gib", 1.0), ("gb", 1e9 / 2**30), ("mib", 1 / 1024), ("mb", 1e6 / 2**30), ("g", 1.0)):
        if plain.endswith(word):
            return positive(plain.removesuffix(word).strip()) * scale, "gib"
    return positive(plain), "gib"


def engine_arg(text: str) -> tuple[str, str]:
    """ "FLAG=VALUE", "--flag=value" or a bare "FLAG" (taken as true) as name and value."""
    name, equals, value = text.lstrip("-").partition("=")
    if not name or any(letter.isspace() for letter in name):
        raise BadInput(f"--engine-arg {text!r} has no flag name; write FLAG=VALUE")
    return name.replace("_", "-"), value if equals else "true"


def arms(options: argparse.Namespace) -> tuple[Ask, Ask]:
    """The requests of both arms: the shared arguments, and on top what --a and --b set.

    A name that is an argument of `kvlab plan` is taken as that (kv-dtype=q8_0); any other is a flag of the engine.
    """
    return _arm(options, options.a), _arm(options, options.b)


def _arm(options: argparse.Namespace, settings: list[str]) -> Ask:
    from kvlab.cli.command import Parser

    parser = Parser("kvlab plan, for --a and --b")
    add_arguments(parser)
    known = {name: action for action in parser._actions for name in action.option_strings}
    own = argparse.Namespace(**{**vars(options), "engine_arg": list(options.engine_arg)})
    words: list[str] = []
    for text in settings:
        name, equals, value = text.lstrip("-").partition("=")
        action = known.get(f"--{name}")
        if action is not None and action.nargs == 0 and equals:
            words += [_switch(name, value, known)]
        elif action is not None:
            words += [f"--{name}={value}" if equals else f"--{name}"]
        else:
            words += [f"--engine-arg={text.lstrip('-')}"]
    return ask(parser.parse_args(words, namespace=own))


def _switch(name: str, value: str, known: Mapping[str, argparse.Action]) -> str:
    """The argument for NAME=true or NAME=false. Raises BadInput for any other value."""
    turned = f"--{name.removeprefix('no-')}" if name.startswith("no-") else f"--no-{name}"
    if value.lower() == "true":
        return f"--{name}"
    if value.lower() == "false" and turned in known:
        return turned
    either = f"{name}=true or {name}=false" if turned in known else f"{name} alone"
    raise BadInput(f"{name}={value}: it is on or off; write {either}")
