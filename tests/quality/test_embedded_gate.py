"""The gate on the embedded engine with a real model: equal arms pass, broken arms fail every part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from math import exp
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec
import pytest

from kvlab import api, engines, gates
from kvlab.core.gate import GateOptions, GateRule, PartFinding, Side, Tag
from kvlab.core.scoring import ScoreAsk, Scored, Scores
from kvlab.gates import _scoring
from kvlab.gates._scoring import TextScores
from kvlab.lab import Lab
from kvlab.launch import Server, start

pytestmark = pytest.mark.e2e
PARTS = ("agreement", "divergence")
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "quality" / "vllm-prompt-logprobs.json").read_text())


def post(url: str, path: str, body: object) -> dict[str, object]:
    request = Request(url + path, msgspec.json.encode(body), {"Content-Type": "application/json"})
    with urlopen(request, timeout=300) as answer:
        return dict(json.load(answer))


def score(url: str, ids: list[int], positions: tuple[int, ...]) -> tuple[Scored, ...]:
    part = engines.scoring("llamacpp")
    assert isinstance(part, Scores)
    steps = part.score(ScoreAsk("m", ids, positions, 20, 0.0))
    step = next(steps)
    while True:
        try:
            step = steps.send(post(url, step.path, step.body))
        except StopIteration as end:
            return tuple(end.value)


def test_the_servers_own_greedy_answer_is_what_it_expects_at_every_position(server: Server) -> None:
    prompt = [2, *_ids(server.url, "The capital of France is")]
    asked = {"prompt": prompt, "n_predict": 8, "temperature": 0, "return_tokens": True}
    answer = post(server.url, "/completion", asked)["tokens"]
    assert isinstance(answer, list)
    ids = [*prompt, *answer]
    found = score(server.url, ids, tuple(range(len(prompt), len(ids))))
    assert [one.top[0].id for one in found] == answer
    assert [one.chosen for one in found] == answer
    assert all(one.logprob == one.top[0].logprob for one in found)
    assert all(sum(exp(token.logprob) for token in one.top) <= 1 + 1e-4 for one in found)


def test_llamacpp_states_what_transformers_computes_for_the_same_text(server: Server) -> None:
    """Weights of 4 to 6 bits against the 16-bit ones: the text costs as much to within 0.2 nats a token."""
    ids: list[int] = GOLDEN["ids"]
    found = score(server.url, ids, tuple(range(1, len(ids))))
    truth = GOLDEN["transformers_float32"]
    assert sum(one.logprob for one in found) / len(found) == pytest.approx(sum(truth) / len(truth), abs=0.2)
    same = sum(one.top[0].id == top for one, top in zip(found, GOLDEN["transformers_float32_top1"], strict=True))
    assert same >= 28  # of 32


def _ids(url: str, text: str) -> list[int]:
    tokens = post(url, "/tokenize", {"content": text, "add_special": False})["tokens"]
    assert isinstance(tokens, list)
    return tokens


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
    file.write_text("\n".join(f"The day after {day} is" for day in days) + "\n" + "\n".join(_FIRST))
    return file


_FIRST = ("Once upon a time", "Water boils at", "def add(a, b):", "My name is", "The sky is", "In the year 1969")


class Arms:
    """Evidence of arms of the embedded engine, each from a few positions and prompts. `server` is that of arm A."""

    def __init__(self, folder: Path, prompts: Path) -> None:
        self.folder = folder
        self._prompts = str(prompts)

    def start(self, model: Path, name: str) -> Server:
        args = {"embedded": "true", "flash-attn": "on", "threads": "1"}
        plan = api.plan(model, engine="llamacpp", context=256, parallel=1, engine_args=args)
        return start(plan, self.folder / f"{name}.log")

    def hear(self, name: str, server: Server, tag: Tag, temperature: float = 0.0) -> None:
        options = GateOptions(prompts=self._prompts, max_tokens=6, longest=40)
        side = Side(url=server.url, engine="llamacpp", context=256, temperature=temperature, options=options)
        gates.collect(PARTS, tag, side, Lab(self.folder / name))

    def judged(self, first: str, second: str, b: str) -> dict[str, PartFinding]:
        lab = Lab(self.folder / f"{first}-{second}-{b}")
        for tag, name in (("a1", first), ("a2", second), ("b", b)):
            for part in PARTS:
                (source,) = (self.folder / name / "gate").glob(f"{part}-*.json")
                shutil.copy(source, lab.path(f"gate/{part}-{tag}.json"))
        return {found.name: found for found in gates.judged(PARTS, lab, GateRule())}


@pytest.fixture(scope="module")
def arms(prompts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arms]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scoring, "_FEW", (3, 3))
        yield Arms(tmp_path_factory.mktemp("arms"), prompts)


@pytest.fixture(scope="module")
def server(arms: Arms, gemma: Path) -> Iterator[Server]:
    """Arm A: heard as such, and then with its requests at temperature 1."""
    with arms.start(gemma, "a") as server:
        arms.hear("a", server, "a1")
        arms.hear("hot", server, "b", temperature=1.0)
        yield server


@pytest.fixture(scope="module")
def again(arms: Arms, gemma: Path) -> None:
    """Arm A after a restart."""
    with arms.start(gemma, "again") as server:
        arms.hear("again", server, "a2")


@pytest.fixture(scope="module")
def damaged(arms: Arms, gemma: Path) -> Iterator[None]:
    """Another model file."""
    file = arms.folder / "damaged.gguf"
    _damage(gemma, file)
    with arms.start(file, "damaged") as server:
        arms.hear("damaged", server, "b")
    yield
    file.unlink()


def _damage(source: Path, target: Path) -> None:
    """The model with the attention of one layer silenced: its output projection is zero."""
    from gguf import GGUFReader

    shutil.copy(source, target)
    (tensor,) = [tensor for tensor in GGUFReader(source).tensors if tensor.name == "blk.5.attn_output.weight"]
    with target.open("r+b") as file:
        file.seek(int(tensor.data_offset))
        file.write(bytes(int(tensor.n_bytes)))


@pytest.mark.usefixtures("server", "again")
def test_the_same_configuration_after_a_restart_is_the_same_to_the_last_digit(arms: Arms) -> None:
    found = arms.judged("a", "again", "again")
    assert {name: part.verdict for name, part in found.items()} == {"agreement": "pass", "divergence": "pass"}
    divergence = {figure.name: figure.b for figure in found["divergence"].numbers}
    assert divergence["mean KL divergence"] is not None
    assert divergence["mean KL divergence"].high == 0


@pytest.mark.usefixtures("server", "again", "damaged")
@pytest.mark.parametrize("broken", ["hot", "damaged"])
def test_a_broken_arm_fails_every_part(arms: Arms, broken: str) -> None:
    found = arms.judged("a", "again", broken)
    assert {name: part.verdict for name, part in found.items()} == {"agreement": "fail", "divergence": "fail"}
    assert found["divergence"].examples


@pytest.mark.usefixtures("server", "again")
def test_evidence_comes_back_from_its_file_as_it_was(arms: Arms) -> None:
    arms.judged("a", "again", "hot")
    lab = Lab(arms.folder / "a-again-hot")
    found = gates.evidence("divergence", "b", lab)
    assert isinstance(found, TextScores)
    assert found.temperature == 1.0
    assert len(found.texts) == 12
    assert all(spot.before for text in found.texts for spot in text.spots)
