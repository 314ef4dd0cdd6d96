"""Scores fixed texts on a running server: which texts, which of their positions, and the requests.

Spans double with the context: 0-128, 128-512, 512-1,024 tokens before the position and so on, because what a coarser
cache loses grows with what has been read from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from kvlab import engines
from kvlab.core.engine import TokenApi
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.gate import CannotRun, GateOptions, Side
from kvlab.core.scoring import NoScores, Post, ScoreAsk, Scored, ScorePart, Scores, Scoring
from kvlab.load import clock
from kvlab.load.connections import Connections
from kvlab.load.exact import ServerTokenizer
from kvlab.load.pages import body, without_secrets
from kvlab.load.reply import server_message
from kvlab.load.server import Server, contact
from kvlab.prompts import texts

if TYPE_CHECKING:
    from aiohttp import ClientSession

SPANS = (0, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 1 << 62)
"""Tokens before a position at which a span begins."""
LONGEST = 16_384
"""Tokens of the long documents, unless another length is asked for: a context may be longer than anyone waits for."""
SHORTEST = 32
"""Tokens below which a text is left out."""
FIRST = 8
"""Positions before this have too little before them to say anything."""
TOP = 20
"""Likeliest tokens kept at a position."""
_FEW, _MANY = (8, 6), (64, 64)
"""Positions of a short text, and of each span of a long one: where each costs a request, and where none does."""
_CHARACTERS = 6
"""Characters of text made for each token that is wanted: more than a token holds on average."""
_BEFORE = 40
"""Tokens before a position that are kept as text, to read."""
_SECONDS = 600.0
_REFUSALS = (400, 404, 405, 422, 501)
"""Statuses that refuse the kind of request, or its length, and say nothing of the server's health."""
_ANSWER_BYTES = 512 << 20
"""Longest answer: 32k positions of 20 tokens take some 70 MB."""


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """A scored position and the end of the text before it."""

    scored: Scored
    before: str


class ScoredText(msgspec.Struct, frozen=True, kw_only=True):
    """One text as a server scored it. `tokens_hash` tells whether two servers read the same tokens."""

    id: str
    kind: str
    tokens: int
    tokens_hash: str
    long: bool = False
    """Whether it runs through all context lengths."""
    spots: tuple[Spot, ...]


class TextScores(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of the divergence part."""

    engine: str
    seen_in: str
    top: int
    temperature: float
    texts: tuple[ScoredText, ...]


def scores_of(engine: str | None) -> Scores:
    """How the engine scores texts. Raises CannotRun when it cannot, or nobody knows which engine it is."""
    if engine is None:
        raise CannotRun("the server does not say which engine it is, so nobody knows how to ask it for probabilities")
    part: ScorePart = engines.scoring(engine)
    if isinstance(part, Scores):
        return part
    because = part.because if isinstance(part, NoScores) else "states no log-probabilities"
    raise CannotRun(f"{engines.engine(engine).title} {because}")


def span_of(position: int) -> tuple[int, int]:
    """The span of context lengths in which a position lies."""
    at = sum(start <= position for start in SPANS) - 1
    return SPANS[at], SPANS[at + 1]


def positions(tokens: int, *, short: bool, every: bool) -> tuple[int, ...]:
    """The positions of a text of `tokens` that are scored: evenly spread within each span."""
    per_text, per_span = _MANY if every else _FEW
    found: list[int] = []
    edges = (FIRST, *(start for start in SPANS[1:] if FIRST < start < tokens), tokens)
    if short:
        edges = (FIRST, tokens)
    for low, high in pairwise(edges):
        count = min(per_text if short else per_span, high - low)
        found += [low + (high - low) * (2 * i + 1) // (2 * count) for i in range(count)]
    return tuple(found)


def score_texts(side: Side) -> TextScores:
    """Scores every text that fits the server's context. Raises CannotRun when the server does not give scores."""
    scores = scores_of(side.engine)
    assert side.engine is not None
    api = engines.token_api(side.engine)

    async def main(_: Callable[[], float]) -> TextScores:
        async with Connections(_SECONDS, side.url) as connections:
            server = await contact(connections.fresh, side.url)
            asker = _Asker(connections.fresh, server, api)
            return await _score_all(asker, scores, side)

    try:
        return clock.run(main)
    except BadInput as problem:
        raise CannotRun(str(problem)) from None


async def _score_all(asker: _Asker, scores: Scores, side: Side) -> TextScores:
    prepared = await _prepared(asker, side, scores.whole)
    total, done, found = sum(len(at) for _, _, at in prepared), 0, []

    def settled(count: int) -> None:
        nonlocal done
        done += count
        side.progress(done, total)

    for text, ids, at in prepared:
        ask = ScoreAsk(asker.server.model, ids, at, min(TOP, scores.most_top), side.temperature)
        scored = await asker.run(scores.score(ask), settled)
        spots = [Spot(scored=one, before=await asker.before(ids, one.position)) for one in scored]
        digest = hashlib.sha256(msgspec.json.encode(ids)).hexdigest()[:16]
        found.append(
            ScoredText(
                id=text.id,
                kind=text.kind,
                tokens=len(ids),
                tokens_hash=digest,
                long=text.kind in texts.LONG,
                spots=tuple(spots),
            )
        )
    return TextScores(
        engine=side.engine or "",
        seen_in=scores.seen_in,
        top=min(TOP, scores.most_top),
        temperature=side.temperature,
        texts=tuple(found),
    )


async def _prepared(asker: _Asker, side: Side, whole: int) -> list[tuple[texts.FixedText, list[int], tuple[int, ...]]]:
    most = longest(side.options, side.context)
    prepared = []
    short = texts.short()
    for text in (*short, *texts.long(most * _CHARACTERS)):
        ids = (await asker.tokenizer.ids(text.text))[:most]
        if len(ids) >= SHORTEST:
            prepared.append((text, ids, positions(len(ids), short=text in short, every=len(ids) <= whole)))
    if not prepared:
        raise CannotRun(f"a context of {side.context} tokens has no room for any text to score; give more --context")
    return prepared


def longest(options: GateOptions, context: int | None) -> int:
    """Tokens of the longest text: what was asked, or what a request may hold besides the one token that it generates.

    Where the context is not known, 2,048, which every served model holds.
    """
    room = 2048 if context is None else context - 2
    return min(room, options.longest or LONGEST)


class _Asker:
    """One server's answers, one request after another."""

    def __init__(self, session: ClientSession, server: Server, api: TokenApi) -> None:
        self.server = server
        self.tokenizer = ServerTokenizer(session, server, api)
        self._session = session

    async def before(self, ids: Sequence[int], position: int) -> str:
        return await self.tokenizer.text(list(ids[max(0, position - _BEFORE) : position]))

    async def run(self, steps: Scoring, settled: Callable[[int], None]) -> tuple[Scored, ...]:
        """Drives an engine's generator to its result; `settled` is told of positions as they are scored."""
        post = next(steps)
        while True:
            answer = await self._post(post)
            settled(post.scores)
            try:
                post = steps.send(answer)
            except StopIteration as end:
                return tuple(end.value)

    async def _post(self, post: Post) -> object:
        import aiohttp

        url = self.server.url + post.path
        try:
            async with self._session.post(url, data=msgspec.json.encode(post.body), allow_redirects=False) as response:
                status, content = response.status, await body(response, _ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise ServerRefused(f"{url} did not answer: {type(problem).__name__}") from None
        if status != 200:
            said = without_secrets(server_message(content[:4096]) or "no message", self._session)
            refusal = f"{url} answered {status}: {said}"
            raise CannotRun(refusal) if status in _REFUSALS else ServerRefused(refusal)
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            raise ServerRefused(f"{url} did not answer with JSON; is this the engine's address?") from None
