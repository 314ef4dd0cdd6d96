"""The verbs, typed: what the command line, and later every other front, calls."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask, Plan
from kvlab.core.sizing import Search
from kvlab.keeping import freeze as freeze
from kvlab.keeping import history as history
from kvlab.keeping import report as report
from kvlab.keeping import verify as verify
from kvlab.prefixing import prefix as prefix
from kvlab.rightsized import traffic as traffic
from kvlab.store import place
from kvlab.swept import sweep as sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvlab.codes import AnyPage
    from kvlab.core.check import Check
    from kvlab.core.comparison import Compare
    from kvlab.core.diagnosis import Diagnosis
    from kvlab.core.engine import Gpu
    from kvlab.core.gate import PartList
    from kvlab.core.observation import Observation
    from kvlab.core.quality import Quality
    from kvlab.core.record import Record
    from kvlab.core.rule import Explain, RuleList
    from kvlab.load.bench import BenchResult, BenchSpec
    from kvlab.load.spec import OnProgress
    from kvlab.options import DiagnoseOptions, PlanOptions, QualityOptions
    from kvlab.settings import ArmName, OnStep, Settings

    OnCount = Callable[[int, int], None]


def plan(source: str | PathLike[str], **options: Unpack[PlanOptions]) -> Plan:
    """What `source` (Hub id, folder, config.json, .gguf) costs and what the engine holds of it.

    Raises KvlabError with one line that says what is wrong with the source or the request.
    """
    from kvlab.request import requested

    return plan_ask(source, *requested(options))


def plan_ask(
    source: str | PathLike[str], ask: Ask, search: Search | None = None, progress: OnCount | None = None
) -> Plan:
    """`plan` with the request as one value; `search` None leaves out the questions beside it."""
    from kvlab.planning import make_plan
    from kvlab.request import checked, suited
    from kvlab.source import load

    if not isinstance(source, str | PathLike):
        raise BadInput(f"the source is {type(source).__name__}, not a Hub id or a path; give the model's config.json")
    ask = checked(ask)
    loaded = load(fspath(source))
    ask = suited(ask, loaded.origin.kind)
    if search is None:
        return make_plan(loaded, ask, fspath(source))
    from kvlab.asked import with_questions

    return with_questions(loaded, ask, fspath(source), search, progress)


def checked_flags(plan: Plan) -> Plan:
    """The plan with a doubt for each flag that the engine installed here does not list; asks the engine once.

    A plan of another version than the installed one may well differ from it.
    """
    from kvlab.flagcheck import doubted

    return doubted(plan)


def artefacts(plan: Plan | str | PathLike[str], folder: str | PathLike[str]) -> tuple[Path, ...]:
    """Writes a plan's launch script, engine files, compose file and Kubernetes manifest; `plan` may be a plan's file.

    Raises BadInput when the folder cannot be written.
    """
    from kvlab.deploy import write
    from kvlab.store import read

    target = Path(place(folder, "folder for --write"))
    return write(plan if isinstance(plan, Plan) else read(place(plan, "plan"), Plan, "plan"), target)


def check(
    log: str | PathLike[str],
    *,
    plan: str | PathLike[str] | Plan | None = None,
    engine: str | None = None,
    learn: bool = False,
    source: str | PathLike[str] | None = None,
) -> Check:
    """The engine's log, or a running server's URL, against a plan (a value, or a file of `kvlab plan --json`).

    Without a plan: what it says. What differs is planned again with the settings that the log states, and its causes
    are named; `source` is the plan's model, where it is not found from the plan. `learn` also writes what the start
    really took to the calibration file, for the next plan of that engine, release and GPU. Raises BadInput for a log
    that no known engine wrote, or that teaches nothing, ServerRefused for a server that does not answer.
    """
    from kvlab.core.check import listing
    from kvlab.reasons import checked
    from kvlab.store import read

    planned = plan if isinstance(plan, Plan) or plan is None else read(place(plan, "plan"), Plan, "plan")
    if learn and planned is None:
        raise BadInput("--learn compares a start with its plan: give --plan FILE")
    observation = _observe(place(log, "log"), engine or (planned.engine.name if planned else None))
    if planned is None:
        return listing(observation)
    near = None if isinstance(plan, Plan) or plan is None else str(Path(plan).parent)
    found = checked(planned, observation, source=None if source is None else place(source, "source"), near=near)
    if not learn:
        return found
    from msgspec.structs import replace

    from kvlab import calibration

    return replace(found, learned=calibration.learn(planned, observation, found))


def _observe(source: str, engine: str | None) -> Observation:
    if source.startswith(("http://", "https://")):
        from kvlab.attach import read_server

        return read_server(source, engine)
    from kvlab.observe import read_log

    return read_log(source, engine)


def explain(log: str | PathLike[str], *, engine: str | None = None) -> Explain:
    """What the log ("-": standard input) shows that went wrong, the most certain and cheapest to cure first.

    No finding is no proof of health. Raises BadInput when there is no such log, or it is empty.
    """
    from kvlab.symptoms import explain as run

    return run(place(log, "log"), engine)


def explain_code(name: str) -> AnyPage:
    """The page of a code that kvlab names in its answers, or of kind:code where it stands for several things.

    Raises BadInput that names the nearest code.
    """
    from kvlab import codes

    return codes.find(name).page


def explain_list() -> RuleList:
    """Every rule of `explain` with its page, and all other codes with their titles."""
    from kvlab.codes import listing

    return listing()


def diagnose(
    *sources: str | PathLike[str],
    plan: str | PathLike[str] | Plan | None = None,
    on_count: OnCount | None = None,
    **asked: Unpack[DiagnoseOptions],
) -> Diagnosis:
    """What a server at work is short of: from its URL, from two scrapes, or from a saved series.

    Raises BadInput for a file that holds no scrape, ServerRefused for a server that does not answer.
    """
    from kvlab.diagnosing import Asked
    from kvlab.diagnosing import diagnose as run
    from kvlab.request import stated

    model = plan if isinstance(plan, Plan) or plan is None else place(plan, "plan")
    return run(tuple(place(one, "scrape") for one in sources), model, stated(Asked, asked, "diagnose"), on_count)


def bench(
    url: str, spec: BenchSpec, *, output: str | PathLike[str] | None = None, progress: OnProgress | None = None
) -> BenchResult:
    """Sends a load to a server and sums it up; `output` also gets vLLM's result keys, and a row per request beside it.

    Raises ServerRefused when the server cannot be reached or answers no request.
    """
    from kvlab.load.bench import bench as run
    from kvlab.load.bench import save
    from kvlab.store import check_target

    if output is not None:
        check_target(place(output, "output file"))
    result = run(url, spec, progress)
    if output is not None:
        save(result, Path(output))
    return result


def bench_ladder(
    url: str,
    spec: BenchSpec,
    concurrencies: Sequence[int],
    *,
    output: str | PathLike[str] | None = None,
    progress: OnProgress | None = None,
) -> tuple[BenchResult, ...]:
    """`bench` at each concurrency in turn, with prompts of their own; `output` X.json becomes X-cN.json for each."""
    from kvlab.load.ladder import ladder
    from kvlab.store import check_target

    if output is not None:
        check_target(place(output, "output file"))
    return ladder(url, spec, concurrencies, output=None if output is None else Path(output), progress=progress)


def compare(a: str | PathLike[str], b: str | PathLike[str]) -> Compare:
    """Two result files, metric by metric, with an interval where the files hold the requests."""
    from kvlab.load.compare import compare as run

    return run(Path(place(a, "result")), Path(place(b, "result")))


def ab(
    settings: Settings, lab: str | PathLike[str], *, command: tuple[str, ...] = (), on_step: OnStep | None = None
) -> Record:
    """A against B of one engine in a lab folder, with its report and charts; an unfinished lab is taken up.

    Raises KvlabError when the settings cannot be planned, an engine does not start, or the lab is taken.
    """
    from kvlab.experiment import run_experiment
    from kvlab.reporting.html import write_charts, write_report

    folder = Path(place(lab, "lab"))
    plans: dict[ArmName, Plan] = {
        "a": plan_ask(settings.source, settings.a),
        "b": plan_ask(settings.source, settings.b),
    }
    record = run_experiment(settings, plans, folder, command=command, on_step=on_step or (lambda step: None))
    write_charts(record, folder / "charts")
    write_report(record, folder)
    return record


def demo(lab: str | PathLike[str] = "kvlab-demo", *, on_step: OnStep | None = None) -> Record:
    """The whole loop on the embedded engine; see `showcase`. `lab` should be what `showcase.folder` gave.

    Raises EngineFailed when the demo extra is not installed.
    """
    from kvlab import showcase

    tell = on_step or (lambda step: None)
    tell(showcase.PREPARING)
    settings = showcase.settings(showcase.model_file(Path(lab)))
    return ab(settings, lab, command=("kvlab", "demo", "--lab", Path(lab).name), on_step=tell)


def gpus() -> tuple[Gpu, ...]:
    """Every GPU that `gpu=` knows, and last "cpu", this machine's own memory."""
    from kvlab.facts.gpus import find, table

    return (*table().values(), find("cpu"))


def quality(a: str | Plan, b: str | Plan, *, on_step: OnStep | None = None, **asked: Unpack[QualityOptions]) -> Quality:
    """The quality gate of B against A: two plans to launch, or the addresses of two running servers.

    A is heard twice, before and after B: what it differs from itself is the noise floor. See `core.gate.GateAsk` for
    `asked`. Raises KvlabError when no part can run, or an engine fails.
    """
    from kvlab import gate
    from kvlab.core.gate import GateAsk
    from kvlab.request import stated

    paths = ("prompts", "lab", "lm_eval_bin", "lm_eval_include")
    named = {name: place(value, name) for name in paths if (value := asked.get(name)) is not None}
    ask = stated(GateAsk, {**asked, **named}, "quality")
    return gate.run(a, b, ask, on_step or (lambda step: None))


def quality_parts() -> PartList:
    """The parts of the quality gate, which engines can run them, and the rule by default."""
    from kvlab import gates

    return gates.listed()
