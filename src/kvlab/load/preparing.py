"""What a bench is asked for, and its prompts made ready."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kvlab import engines
from kvlab.core.errors import BadInput
from kvlab.core.objectives import Objective
from kvlab.load import clock, sets
from kvlab.load.connections import Connections
from kvlab.load.datasets import Dataset, RandomTokens
from kvlab.load.exact import LocalTokenizer, ServerTokenizer, Tokenizer, random_prompts
from kvlab.load.making import Made, Tools, Wanted
from kvlab.load.server import Server, contact, tokens_of
from kvlab.load.spec import LoadSpec, OnProgress, Progress, Prompt

_WARM_UP_TEXT = "Describe the weather of a small island in a few plain sentences."


class BenchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to send and how. `engine` None: the one that the server says it is."""

    dataset: Dataset
    load: LoadSpec
    """With `arrivals` that are empty, the requests come at the data set's own times."""
    num_prompts: int | None = None
    """Requests, or conversations where they are played turn by turn. None: all of a file; other data sets need it."""
    engine: str | None = None
    tokenizer: str | None = None
    """Of the model, to make prompts with: tokenizer.json, its folder, a GGUF or a Hub model. None: the engine's own."""
    warm_up: int = 4
    """Requests sent first and discarded. They share no prefix with the measured ones."""
    percentiles: tuple[float, ...] = (99.0,)
    label: str | None = None
    objectives: tuple[Objective, ...] = ()
    """What a request must meet to count in the goodput."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts ready to be sent, the same for every run of an experiment."""

    server: Server
    prompts: tuple[Prompt, ...]
    warm_up: tuple[Prompt, ...]
    arrivals: tuple[float, ...] | None = None
    """When the data set has its prompts sent, for a load that follows it."""
    notes: dict[str, object] = {}
    """What the data set says of itself, for the result file."""

    def load(self, spec: LoadSpec) -> LoadSpec:
        """The load with the data set's times, if it is to follow them. Raises BadInput when there are none."""
        if spec.arrivals != ():
            return spec
        if self.arrivals is None:
            raise BadInput("this data set has no times of its own: give --rate or --concurrency")
        return replace(spec, arrivals=self.arrivals)


def prepare(url: str, spec: BenchSpec, progress: OnProgress | None = None) -> Prepared:
    """Make the prompts, with the server's own tokenizer, or the one that is named, where lengths are to be exact.

    Raises BadInput for a data set that cannot be made, ServerRefused when the server does not answer.
    """
    if spec.warm_up < 0:
        raise BadInput(f"warm-up {spec.warm_up} must not be negative")
    wanted = Wanted(spec.num_prompts, spec.load.seed, spec.load.endpoint)
    draft = sets.maker(spec.dataset).draft(spec.dataset, wanted)
    local = None if spec.tokenizer is None else LocalTokenizer(spec.tokenizer)

    def done(made: int, count: int) -> None:
        if progress is not None:
            progress(Progress("prompts", made, count))

    async def main(_: Callable[[], float]) -> Prepared:
        async with Connections(spec.load.timeout, url, spec.load.tls) as connections:
            server = await contact(connections.fresh, url, spec.load.model)
            own = _tokenizer(connections, server, spec.engine or server.engine)
            tools = Tools(*(own if local is None else (local, None)), done)
            made = await draft(tools)
            warm_up = await _warm_up(tools, made, spec)
        prompts = made.prompts
        if spec.load.endpoint == "chat":
            # The chat template adds tokens of its own.
            prompts = tuple(replace(prompt, expected_prompt_tokens=None) for prompt in prompts)
        return Prepared(server=server, prompts=prompts, warm_up=warm_up, arrivals=made.arrivals, notes=made.notes)

    return clock.run(main)


def _tokenizer(
    connections: Connections, server: Server, engine: str | None
) -> tuple[Tokenizer | None, BadInput | None]:
    """The engine's tokenizer, or why there is none. Raises BadInput for an engine that is not known."""
    if engine is not None and engine not in engines.names():
        tokens_of(engine)
    try:
        return ServerTokenizer(connections.fresh, server, tokens_of(engine)), None
    except BadInput as why:
        return None, why


async def _warm_up(tools: Tools, made: Made, spec: BenchSpec) -> tuple[Prompt, ...]:
    if made.warm_up_tokens is None:
        return tuple(Prompt(id=f"warm-up {i}", text=_WARM_UP_TEXT, output_tokens=16) for i in range(spec.warm_up))
    plain = RandomTokens(input_tokens=made.warm_up_tokens[0], output_tokens=made.warm_up_tokens[1])
    seed = f"{spec.load.seed} warm-up"
    return await random_prompts(tools.counting(), plain, spec.warm_up, seed, lambda _: None)
