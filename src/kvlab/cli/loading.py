"""The options that say what is sent to a server, and how: of every command that takes a whole load."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

from kvlab.cli import idle
from kvlab.cli.command import count, positive, requests, tokens
from kvlab.core.errors import BadInput

if TYPE_CHECKING:
    from kvlab.load.datasets import Dataset
    from kvlab.load.spec import LoadSpec, Ramp

SETS = ("random", "shared-prefix", "prompts", "sharegpt", "log", "trace")
_FILES = ("prompts", "sharegpt", "log", "trace")


class Usual(NamedTuple):
    """What a command sends where neither an option nor a file says it."""

    prompts: int
    all_of_file: bool
    """Whether it then takes all of a file, or that many of it too."""
    input_tokens: int
    output_tokens: int
    shared_tokens: int
    shared: str
    """The option that sets the last, in a command that has other prefixes too."""


BENCH = Usual(64, True, 1024, 128, 512, "--prefix-tokens")
AB = Usual(32, False, 512, 64, 256, "--shared-tokens")
CONCURRENCY = 8


def add_data(parser: argparse._ActionsContainer, usual: Usual) -> None:
    """What is sent."""
    parser.add_argument(
        "--endpoint",
        choices=("completions", "chat"),
        default="completions",
        help="/v1/completions, or /v1/chat/completions with the chat template (default: completions)",
    )
    parser.add_argument("--dataset", choices=SETS, help="what to send (default: random, or prompts with --prompts)")
    parser.add_argument(
        "--dataset-path",
        "--prompts",
        metavar="FILE",
        help="the file of --dataset prompts, sharegpt, log (requests with text) or trace (lengths) (default: none)",
    )
    parser.add_argument("--format", help="the format of a log or trace (default: as its lines tell)")
    some = f"{usual.prompts}, or all of the file" if usual.all_of_file else f"{usual.prompts}"
    parser.add_argument(
        "--num-prompts",
        "--limit",
        type=requests,
        metavar="N",
        help=f"requests, the first of a file; with --turns all conversations (default: {some})",
    )
    parser.add_argument(
        "--input-tokens",
        type=tokens("--input-tokens"),
        default=usual.input_tokens,
        help="tokens of each prompt, a shared prefix included; a file has its own (default: %(default)s)",
    )
    parser.add_argument(
        "--output-tokens",
        type=tokens("--output-tokens"),
        help="tokens of each answer, at most where it may end by itself"
        f" (default: {usual.output_tokens}, or as the file recorded them)",
    )
    parser.add_argument(
        usual.shared,
        type=tokens(usual.shared),
        default=usual.shared_tokens,
        help="tokens at the start of the prompts that --dataset shared-prefix repeats (default: %(default)s)",
    )
    parser.add_argument("--prefixes", type=count, default=1, help="different shared prefixes (default: 1)")
    parser.add_argument(
        "--turns",
        choices=("first", "all"),
        default="first",
        help="of sharegpt's conversations the first turn, or all, each sent when the last is answered (default: first)",
    )
    parser.add_argument(
        "--history",
        choices=("server", "recorded"),
        default="server",
        help="whose answers stand in the history of later turns: the server's, or the file's (default: server)",
    )
    parser.add_argument(
        "--scale-tokens", type=positive, default=1.0, metavar="X", help="times all lengths of a trace (default: 1)"
    )


def add_open_loop(parser: argparse._ActionsContainer) -> None:
    """When it is sent, unless some are kept in flight."""
    parser.add_argument("--rate", type=positive, help="open loop: requests a second, Poisson (default: closed loop)")
    parser.add_argument(
        "--burstiness",
        type=shape,
        default=1.0,
        help="shape of the gamma distribution of an open loop's gaps: less is bursts, more is evener (default: 1)",
    )
    parser.add_argument(
        "--scale-time",
        type=positive,
        default=1.0,
        metavar="X",
        help="times the arrival times of a log or trace, which are kept without --rate and --concurrency (default: 1)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of prompts, arrivals and cancellations (default: 0)")


def add_arrivals(parser: argparse._ActionsContainer) -> None:
    """When it is sent: every way there is."""
    parser.add_argument(
        "--concurrency",
        type=counts,
        metavar="N[,N]",
        help=f"closed loop: requests in flight (default: {CONCURRENCY}); several, as in 1,2,4: one run and one file"
        " each",
    )
    add_open_loop(parser)
    parser.add_argument(
        "--ramp", metavar="FROM:TO", help="open loop: a rate that goes from one to another (default: none)"
    )
    parser.add_argument(
        "--ramp-strategy", choices=("linear", "exponential"), default="linear", help="how it goes (default: linear)"
    )
    parser.add_argument("--warm-up", type=int, default=4, help="requests sent first and discarded (default: 4)")


def add_client(parser: argparse.ArgumentParser) -> None:
    """How the client behaves."""
    parser.add_argument(
        "--extra-body",
        type=body,
        default={},
        metavar="JSON",
        help="""further keys of each request, as in '{"top_p": 0.9}'; null takes one out (default: none)""",
    )
    parser.add_argument("--no-ignore-eos", action="store_true", help="let the model end its answers")
    parser.add_argument("--timeout", type=positive, default=600.0, help="seconds a request may take (default: 600)")
    parser.add_argument(
        "--retry",
        type=int,
        default=0,
        metavar="N",
        help="times to send a request again that is answered 429 or 503, after its Retry-After (default: 0)",
    )
    parser.add_argument(
        "--cancel-share", type=float, default=0.0, metavar="X", help="share of the requests to give up (default: 0)"
    )
    parser.add_argument(
        "--cancel-after", type=positive, metavar="S", help="seconds after which those are given up (default: none)"
    )
    parser.add_argument(
        "--processes",
        type=processes,
        default=1,
        metavar="N|auto",
        help="client processes that share the load; auto: as many as it needs (default: 1)",
    )
    add_tls(parser)


def add_tls(parser: argparse._ActionsContainer) -> None:
    """Whom to believe on https."""
    parser.add_argument(
        "--ca-file", metavar="FILE", help="PEM file of the authorities to trust for https (default: the system's)"
    )
    parser.add_argument("--insecure", action="store_true", help="take any certificate of an https server")


def prompts(options: argparse.Namespace, usual: Usual) -> int | None:
    """Requests that are asked for; None: all of the file."""
    return options.num_prompts or (None if options.dataset_path is not None and usual.all_of_file else usual.prompts)


def dataset(options: argparse.Namespace, usual: Usual) -> Dataset:
    """What the options name. Raises BadInput for a data set without its file."""
    from kvlab.load import datasets

    path = options.dataset_path
    name = options.dataset or ("random" if path is None else "prompts")
    if name in _FILES and path is None:
        raise BadInput(f"--dataset {name} needs --{'prompts' if name == 'prompts' else 'dataset-path'} FILE")
    if name not in _FILES and path is not None:
        raise BadInput(f"--dataset {name} takes no file; give --dataset {', '.join(_FILES[:-1])} or {_FILES[-1]}")
    idle.refuse(options, name, (usual.shared, usual.shared_tokens))
    output = options.output_tokens
    fixed = output or usual.output_tokens
    if name == "prompts":
        return datasets.PromptsFile(path=path, output_tokens=fixed)
    if name == "sharegpt":
        return datasets.ShareGpt(path=path, output_tokens=output, turns=options.turns, history=options.history)
    if name == "log":
        return datasets.RequestLog(
            path=path, output_tokens=output, format=options.format, scale_time=options.scale_time
        )
    if name == "trace":
        return datasets.TraceFile(
            path=path,
            format=options.format,
            output_tokens=output,
            scale_time=options.scale_time,
            scale_tokens=options.scale_tokens,
        )
    if name == "random":
        return datasets.RandomTokens(input_tokens=options.input_tokens, output_tokens=fixed)
    shared = getattr(options, usual.shared.strip("-").replace("-", "_"))
    suffix = options.input_tokens - shared
    if suffix < 1:
        raise BadInput(f"{usual.shared} {shared} must be less than --input-tokens {options.input_tokens}")
    return datasets.SharedPrefix(
        prefix_tokens=shared, suffix_tokens=suffix, output_tokens=fixed, prefixes=options.prefixes
    )


def load(options: argparse.Namespace, concurrency: int | None) -> LoadSpec:
    """How the options have it sent. Raises BadInput for options that contradict each other."""
    from kvlab.load.spec import LoadSpec, Tls

    ramp = None if options.ramp is None else _ramp(options.ramp, options.ramp_strategy)
    timed = options.dataset in ("log", "trace") and concurrency is None and options.rate is None and ramp is None
    closed = options.rate is None and ramp is None and not timed
    return LoadSpec(
        concurrency=(concurrency or CONCURRENCY) if closed else concurrency,
        rate=options.rate,
        burstiness=options.burstiness,
        ramp=ramp,
        arrivals=() if timed else None,
        seed=options.seed,
        endpoint=options.endpoint,
        model=options.model,
        ignore_eos=not options.no_ignore_eos,
        timeout=options.timeout,
        extra=options.extra_body,
        retries=options.retry,
        cancel_share=options.cancel_share,
        cancel_after=options.cancel_after,
        tls=Tls(ca_file=options.ca_file, insecure=options.insecure),
        processes=options.processes,
    )


def counts(text: str) -> tuple[int, ...]:
    """An argument type for whole numbers with commas between them."""
    return tuple(count(part) for part in text.split(","))


def body(text: str) -> dict[str, object]:
    """An argument type for a JSON object."""
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f'{text!r} is no JSON object, as in {{"top_p": 0.9}}')
    return found


def shape(text: str) -> float:
    """An argument type for a number above 0, or inf."""
    return float("inf") if text == "inf" else positive(text)


def processes(text: str) -> int | str:
    """An argument type for a number of processes, or auto."""
    return text if text == "auto" else count(text)


def _ramp(text: str, strategy: str) -> Ramp:
    from kvlab.load.spec import Ramp

    start, colon, end = text.partition(":")
    if not colon:
        raise BadInput(f"--ramp {text} names no two rates; write FROM:TO, as in 1:20")
    return Ramp(
        start=_rate(text, start),
        end=_rate(text, end),
        shape="exponential" if strategy == "exponential" else "linear",
    )


def _rate(ramp: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"--ramp {ramp}: {text!r} is not a number") from None
