"""A sweep of load on one server, running or launched: every look at a load is a file of the lab.

What was measured is named by its load, its look and its size, and its prompts are drawn from these: an interrupted
sweep goes on where it stopped, and one with other objectives, bounds or prices takes up the looks that it shares.
Prompts are fresh at every look, so that the prefix cache does not answer for the engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from kvlab import __version__, machine
from kvlab.core.bracket import Next, Search, Stop, following
from kvlab.core.check import Check
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.objectives import Objective
from kvlab.core.plan import Ask, Plan
from kvlab.core.points import Round, Terms, point, seen
from kvlab.core.sweep import Sweep, SweepLoad, SweepPoint
from kvlab.core.sweep_judge import Priced, judge, loads
from kvlab.lab import Lab
from kvlab.launch import DYING_SECONDS, Server, start
from kvlab.load.address import base_url
from kvlab.load.bench import BenchSpec, prepare
from kvlab.load.datasets import RandomTokens
from kvlab.load.runner import run_load
from kvlab.load.server import metrics_of
from kvlab.load.spec import Endpoint, LoadResult, LoadSpec, Progress, Tls
from kvlab.measuring import with_planned_pool
from kvlab.observe import read_log
from kvlab.preflight import check_installed
from kvlab.reasons import checked
from kvlab.settings import OnStep, Step

_SITTINGS = "sittings.json"
_CHECK = "check.json"
SWEEP = "sweep.json"
"""The finished sweep in its lab."""


class SweepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep, complete: what is in lab.json."""

    schema: Literal["kvlab/sweep-lab@1"] = "kvlab/sweep-lab@1"
    source: str
    """The address of a running server, or a model to launch."""
    ask: Ask | None = None
    """How to launch it; None for a running server."""
    search: Search
    objectives: tuple[Objective, ...] = ()
    input_tokens: int = 512
    output_tokens: int = 64
    endpoint: Endpoint = "completions"
    model: str | None = None
    engine: str | None = None
    """Whose tokenizer and metrics a running server has; None: as it says."""
    tokenizer: str | None = None
    """As in BenchSpec."""
    timeout: float = 600.0
    tls: Tls = Tls()
    warm_up: int = 4
    """Requests before each look that are not counted."""
    seed: int = 0
    price_per_hour: float | None = None
    """Dollars an hour of the whole server."""
    output_weight: float = 1.0
    """Price of an output token in prompt tokens, where both share the price."""

    def __post_init__(self) -> None:
        if self.price_per_hour is not None and not 0 < self.price_per_hour < float("inf"):
            raise BadInput(f"{self.price_per_hour:g} is no price an hour; give dollars above 0")
        if not 0 < self.output_weight < float("inf"):
            raise BadInput(f"an output token of {self.output_weight:g} prompt tokens has no price; give more than 0")


_MAY_CHANGE = frozenset({"search", "objectives", "price_per_hour", "output_weight", "tls"})
"""What no look rests on."""


def run_sweep(settings: SweepSettings, folder: Path, *, plan: Plan | None, on_step: OnStep) -> Sweep:
    """Runs, or takes up, the sweep in `folder`. `plan`: what is launched, or what a running server is compared with.

    Raises BadInput for requests that do not fit the plan, a share that the requests cannot prove, or a folder that is
    taken; EngineFailed and ServerRefused when the engine or the server fails. Whatever was started is stopped.
    """
    if settings.objectives:
        settings.search.provable()
    _check_context(settings, plan)
    if settings.ask is not None and plan is not None:
        check_installed([plan])
    kept = settings if settings.ask is not None else msgspec.structs.replace(settings, source=base_url(settings.source))
    lab = Lab(folder)
    with lab.claimed(kept, may_change=_MAY_CHANGE), ExitStack() as started:
        sweeping = _Sweeping(settings, lab, plan, on_step)
        points, stop = sweeping.points(started)
        return sweeping.answer(points, stop, kept.source)


def _check_context(settings: SweepSettings, plan: Plan | None) -> None:
    asked = settings.input_tokens + settings.output_tokens
    if plan is not None and plan.kv.context is not None and asked > plan.kv.context:
        raise BadInput(
            f"requests of {asked:,} tokens (input and output) do not fit the {plan.kv.context:,} that the plan allows;"
            " lower --input-tokens or --output-tokens, or give more --context"
        )


class _Sweeping:
    def __init__(self, settings: SweepSettings, lab: Lab, plan: Plan | None, on_step: OnStep) -> None:
        self._settings = settings
        self._terms = Terms(settings.search, settings.objectives, settings.price_per_hour)
        self._lab = lab
        self._plan = plan
        self._on_step = on_step
        self._at = Step(0, settings.search.most_points, "")
        self._server: Server | None = None
        self._measured = False
        self._last: Round | None = None
        self._unchecked = False

    def points(self, started: ExitStack) -> tuple[tuple[SweepPoint, ...], Stop]:
        """Looks until the search has ended: the points by load. An engine is started when the first look needs it."""
        rounds: dict[float, list[Round]] = {}
        found: dict[float, SweepPoint] = {}
        while True:
            step = following(self._settings.search, [seen(one) for one in found.values()])
            if isinstance(step, Stop):
                return tuple(sorted(found.values(), key=lambda one: one.load)), step
            number = len(found) - (step.load in found)
            total = max(number + 1, len(self._settings.search.points) or self._settings.search.most_points)
            look = "" if step.look == 0 else f", look {step.look + 1}"
            self._at = Step(number, total, f"{loads(self._settings.search.over, step.load)}{look}")
            self._on_step(self._at)
            last = self._lab.once(self._file(step), Round, partial(self._look, step, started))
            if self._last is not None and last.model != self._last.model:
                raise BadInput(
                    f"the looks in {self._lab.folder} are of {self._last.model}, and {last.model} answers now; choose"
                    " another --lab"
                )
            self._last = last
            self._unchecked = self._unchecked or last.unchecked
            rounds.setdefault(step.load, []).append(last)
            found[step.load] = point(rounds[step.load], self._terms)

    def answer(self, points: tuple[SweepPoint, ...], stop: Stop, source: str) -> Sweep:
        """The finished sweep, kept in the lab."""
        settings, last = self._settings, self._last
        assert last is not None  # a search looks at least once
        beside = Priced(
            plan=self._plan,
            request_tokens=settings.input_tokens + settings.output_tokens,
            output_weight=settings.output_weight,
            seed=settings.seed,
        )
        found = judge(points, stop, self._terms, beside)
        sweep = Sweep(
            over=settings.search.over,
            points=points,
            objectives=settings.objectives,
            target=settings.search.target,
            level=settings.search.level,
            safe=found.safe,
            knee=found.knee,
            cost=found.cost,
            verdict=msgspec.structs.replace(found.verdict, because=(*found.verdict.because, *self._remarks())),
            load=SweepLoad(
                input_tokens=settings.input_tokens,
                output_tokens=settings.output_tokens,
                endpoint=settings.endpoint,
                seed=settings.seed,
            ),
            source=source,
            model=last.model,
            engine=last.engine,
            sittings=self._sittings(),
            finished=machine.now(),
            kvlab_version=__version__,
            machine=machine.describe(),
        )
        self._lab.save(SWEEP, sweep)
        return sweep

    def _remarks(self) -> list[str]:
        """Where the launched engine's log is not as planned, and whom this client believed unasked."""
        rows = self._lab.load(_CHECK, Check).rows if self._lab.has(_CHECK) else ()
        differ = [row.name for row in rows if row.verdict == "differs"]
        found = [f"the engine's log is not as planned in {', '.join(differ)} ({_CHECK} in the lab)"] if differ else []
        return found + (["the server's certificate was not checked (--insecure)"] if self._unchecked else [])

    def _file(self, step: Next) -> str:
        unit = "at-once" if self._settings.search.over == "concurrency" else "a-second"
        return f"looks/{step.load:g}-{unit}-{step.look + 1}-of-{step.requests}.json"

    def _sittings(self) -> tuple[str, ...]:
        return self._lab.load(_SITTINGS, tuple[str, ...]) if self._lab.has(_SITTINGS) else ()

    def _sit_down(self, started: ExitStack) -> None:
        """Before the first look of this sitting: note when it began, and start the engine if it is not there yet."""
        if self._measured:
            return
        self._measured = True
        self._lab.save(_SITTINGS, (*self._sittings(), machine.now()))
        if self._settings.ask is None:
            return
        assert self._plan is not None  # what is launched has been planned
        plan, log = self._plan, self._lab.path("engine.log")
        self._lab.save("plan.json", plan)
        self._on_step(msgspec.structs.replace(self._at, text="starting the engine"))
        self._server = started.enter_context(start(plan, log))
        self._lab.once(_CHECK, Check, lambda: checked(plan, read_log(str(log))))
        self._on_step(self._at)

    def _look(self, step: Next, started: ExitStack) -> Round:
        self._sit_down(started)
        settings, server = self._settings, self._server
        url = settings.source if server is None else server.url
        spec = self._spec(step, settings.engine if server is None else server.command.engine)
        try:
            ready = prepare(url, spec, self._progress)
            engine = spec.engine or ready.server.engine
            result = run_load(
                url,
                ready.prompts,
                spec.load,
                warm_up=ready.warm_up,
                metrics=metrics_of(engine),
                progress=self._progress,
            )
        except ServerRefused as error:
            raise (server and server.died(DYING_SECONDS)) or error from None
        if server is not None and (gone := server.died(DYING_SECONDS if result.failed else 0)):
            raise gone  # what was measured ends somewhere in the run: not a look to keep
        if self._plan is not None:
            result = with_planned_pool(result, self._plan)
        return Round(
            load=step.load,
            look=step.look,
            seed=spec.load.seed,
            duration=result.duration,
            client_limit=_limit(result),
            rows=result.rows,
            pool=result.pool,
            model=result.model,
            engine=engine,
            unchecked=settings.tls.insecure and url.startswith("https://"),
        )

    def _spec(self, step: Next, engine: str | None) -> BenchSpec:
        settings, over = self._settings, self._settings.search.over
        load = LoadSpec(
            concurrency=int(step.load) if over == "concurrency" else None,
            rate=step.load if over == "rate" else None,
            seed=fresh_seed(settings.seed, f"{over} {step.load:g} {step.look} {step.requests}"),
            endpoint=settings.endpoint,
            model=settings.model,
            timeout=settings.timeout,
            tls=settings.tls,
        )
        data = RandomTokens(input_tokens=settings.input_tokens, output_tokens=settings.output_tokens)
        return BenchSpec(
            dataset=data,
            load=load,
            num_prompts=step.requests,
            engine=engine,
            tokenizer=settings.tokenizer,
            warm_up=settings.warm_up,
        )

    @property
    def _progress(self) -> Callable[[Progress], None]:
        at, tell = self._at, self._on_step
        return lambda now: tell(msgspec.structs.replace(at, done=now.done, total=now.total, phase=now.text))


def fresh_seed(seed: int, what: str) -> int:
    """A seed of its own for each look, the same whenever the look is done: no prompt of one is one of another."""
    return zlib.crc32(f"{seed} {what}".encode())


def _limit(result: LoadResult) -> str | None:
    return result.client.because if result.client is not None and result.client.bottleneck else None
