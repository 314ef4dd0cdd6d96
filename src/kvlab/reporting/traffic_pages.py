"""What `kvlab traffic` reads and says as one Markdown document: docs/traffic.md is what this gives."""

from __future__ import annotations

from kvlab import breakers, traces
from kvlab.core.rule import Page
from kvlab.reporting.page_parts import numbered, sentence, sources
from kvlab.variants import line
from kvlab.workload import moves, schedulers

_HEAD = """# What `kvlab traffic` reads and says

Generated from src/kvlab/traces, breakers, workload/moves and workload/schedulers by `python scripts/traffic_pages.py`;
a test keeps it so. The format of a file is told from its content; `--format NAME` sets it. Text is tokenised on this
machine (`--tokenizer`), and what is kept of it are lengths and hashes whose key is drawn anew for each run.
"""
_START = """A row of a log of requests is the body as it was sent (`messages`, `prompt`, or token ids), alone or under
`request` or `body`; beside it may stand `timestamp`, and `response` or `usage`, which says how long the answer was.
Gateways' own names for these are known too.

## A first look

What the prompts share, what breaks their prefixes, and the log without it:

```console
$ kvlab traffic requests.jsonl --tokenizer Qwen/Qwen3-8B --fix fixed.jsonl
```

On one GPU: `kvlab plan` says how large its pool is (4.78 GiB for Qwen3-8B in bfloat16 on 24 GB, in the README).
`--capacity` puts a cache of that size on the curve and lets the moves take it for the GPU's; `--pool` simulates it:

```console
$ kvlab traffic requests.jsonl --tokenizer Qwen/Qwen3-8B --model Qwen/Qwen3-8B --capacity 4.78GiB \\
    --pool 4.78GiB,9.56GiB --engine sglang --max-num-batched-tokens 2048 --prefill-speed 8000 --decode-step 30 \\
    --report report
$ kvlab explain timestamp
```

Sizes in bytes need `--model`; without one they are blocks, of the trace's size or of `--block-size` tokens.
A size that divides the trace's splits its blocks; a multiple of it joins them.
"""
_SCALE = """## Large traces

`--sample 1%` estimates reuse from a share of the blocks, chosen by a hash of their ids (SHARDS): all references of a
block are looked at or none, and each point of the curve comes with its error. Requests, lengths and references are
counted in full, and so is how often each block is referred to: a block of the sample stands for those that are referred
to as often, which halves the error or better, and what an endless cache hits is exact. Only where several files share
their blocks, as logs of text do, is that not known. The error depends on how many blocks are in the sample, not on the
share: two thousand are off by one to two points, some tens of thousands by a quarter. Where it is more than one, the
answer says which share would do. Cache sizes below one over the share are not resolved. `--policy`, `--tiers`,
`--replicas` and `--pool` need every block.

`--ray ADDRESS` reads each file in a task of Ray Data (`pip install 'kvlab[traffic,ray]'`, on its workers too, which
must see the files under the same paths) and merges the results here, by time; `--ray local` starts a Ray of this
machine's CPUs on loopback, and stops it. The answer is that of a run without it. What comes back is lengths and block
ids, with `--sample` only those of the sample; no text leaves the machine that reads it. What breaks prefixes is not
looked for on Ray.
"""
_PAGING = """## What reserving memory would waste

The share of the reserved tokens that are not used, over all decode steps: a request holds its place for as many steps
as its answer has tokens, and at step k it uses its prompt and k tokens. `max` reserves for each what holds the longest
request (the next power of two, or `--context`), `pow2` the prompt and the next power of two of the answer, `oracle` the
length that it will have in the end (the three schemes of Kwon et al., SOSP 2023, section 3.1), and pages are reserved
whole, as the request grows.
"""
_REPORT = """## The report

`--report FOLDER` writes report.html, one page that needs neither network nor script, and its charts as PNG in charts/.
The answers stand first: the limit, the cache, the tier, and the moves in their order. `-o traffic.json` keeps the whole
answer, and `kvlab report traffic.json --folder FOLDER` makes the page of it again.

Every table says whether its figures are read, computed, estimated or simulated, and what counts. Curves of lengths are
kept in steps of half a point, each of them exact. A chart has up to 400 points and a table up to 60 rows; where there
are more, the page says so, and the JSON holds all. No prompt is on the page; names of files, and the roles of the
messages in which a prefix breaks, are.
"""
_AT_ONCE = """## Requests at once

How many requests are served at a time (mean, p99, peak), what the pool holds of them, and what gives a fifth of it to
spare at the peak. It needs when requests came, and how long each is served: by `--prefill-speed` and `--decode-step`,
else as the log says (AIPerf, guidellm, agent sessions), else by the speeds of `--plan`, at their slow and fast ends.
The pool is the first `--capacity`, the first `--pool`, or the plan's:

```console
$ kvlab plan Qwen/Qwen3-8B --gpu rtx4090-24gb --json -o plan.json
$ kvlab traffic requests.csv --plan plan.json
```

The moves stand in the order of what they cost: a smaller cache dtype (of the plan's, or half the bytes), the context
limit, shorter prompts (by half at the most), more memory. Each says what the pool then holds and needs. With `--plan`
or `--model` the context limit also says how much of the cache it frees of what a request may take now.
"""
_POOLS = """## Pools under load

`--pool N,N --prefill-speed TOKENS/S --decode-step MS` serves the trace on a pool of N blocks as an engine's scheduler
would, step by step, and says how long requests wait, when their first token comes (percentiles), how often blocks are
taken from a request that runs, and how many tokens are computed again for it. `--engine` names the scheduler. Compare
two with the same `--max-num-seqs` and `--max-num-batched-tokens` (SGLang: `--max-running-requests` and
`--chunked-prefill-size`): their defaults differ, and an engine's own depend on the GPU. On one of 24 GB vLLM's server
runs up to 256 requests, and SGLang computes 2,048 tokens a step (4,096 since 0.5.20).

The speeds are those of one request alone, as `kvlab bench URL --concurrency 1` measures them: the tokens of a long
prompt over its TTFT, and TPOT. A step takes the same time however many requests it serves.
"""
_BREAKERS = """## What breaks a prefix

Looked for in logs with text. Each is weighed by what an endless cache would hit without it, all others being fixed;
`--fix FILE` writes the log with all of them fixed.
"""
_MOVES = """## Moves

Settings first, then by the share of the prompt tokens that each saves on this traffic.
"""


def document() -> str:
    """The formats, an example, the schedulers, then a page for each breaker and each move."""
    formats = [f"| {name} | {reader.title} |" for name, reader in traces.readers().items()]
    table = "\n".join(("| `--format` | what |", "| --- | --- |", *formats)) + "\n"
    pools = [_scheduler(engine) for engine in schedulers.known()]
    causes = [_section(breakers.page(code)) for code in breakers.causes()]
    advice = [_section(moves.page(code)) for code in moves.known()]
    return "\n".join(
        (_HEAD, table, _START, _PAGING, _AT_ONCE, _POOLS, *pools, _SCALE, _REPORT, _BREAKERS, *causes, _MOVES, *advice)
    )


def _section(page: Page) -> str:
    return (
        f"### {page.code}\n\n**{page.title}.** {sentence(page.cause)}\n\n"
        f"Symptom: {page.symptom}\n\nDo:\n\n{numbered(page.do)}\n\n{sources(page.source)}"
    )


def _scheduler(engine: str) -> str:
    title, parts = schedulers.page(engine)
    *said, (_, links) = parts.items()
    paragraphs = "\n\n".join(f"{name}: {sentence(line(text))}" for name, text in said)
    return f"### `--engine {engine}`\n\n**{title}.**\n\n{paragraphs}\n\n{sources(tuple(links.split()))}"
