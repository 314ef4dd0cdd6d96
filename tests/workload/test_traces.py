"""Reading traces: formats told from their lines, bad rows counted and located, unusable files refused in one line."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kvlab import api, traces
from kvlab.core.errors import BadInput

ROWS = [
    {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 1500, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]},
    {"timestamp": 1000, "input_length": 512, "output_length": 1, "hash_ids": [0]},
]


def written(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_mooncake_rows_plain_gzip_and_zstandard(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.jsonl", list(ROWS))
    (tmp_path / "b").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "c").write_bytes(zstandard.compress(plain.read_bytes()))
    for path in (plain, tmp_path / "b", tmp_path / "c"):
        found = traces.read(path)
        assert found.blocks is not None
        assert found.blocks.size == 512
        assert found.blocks.last_short.tolist() == [324, 0, 0]
        assert found.inputs.tolist() == [700, 1024, 512]
        assert found.clock_jumps == 1


def test_bailian_counts_in_seconds_and_blocks_of_16(tmp_path: Path) -> None:
    rows = [
        {
            "chat_id": at,
            "parent_chat_id": -1,
            "timestamp": at * 2.5,
            "input_length": 40,
            "output_length": 3,
            "type": "text",
            "turn": 1,
            "hash_ids": [8617230142301, 5, 77 + at],
        }
        for at in range(3)
    ]
    found = traces.read(written(tmp_path / "qwen.jsonl", list(rows)))
    assert found.arrivals is not None
    assert np.ptp(found.arrivals) == 5.0
    assert found.blocks is not None
    assert found.blocks.size == 16
    reuse = api.traffic(tmp_path / "qwen.jsonl").reuse
    assert reuse is not None
    assert (reuse.ideal.hit_blocks, reuse.ideal.unique_blocks) == (4, 5)  # ids are hashes, far apart


def test_bad_rows_are_counted_and_located_and_the_rest_used(tmp_path: Path) -> None:
    long = "x" * (17 << 20)
    bad = ['{"timestamp": 3, "input_le', {**ROWS[0], "input_length": -4}, "", {**ROWS[0], "hash_ids": [1, 1]}, long]
    found = api.traffic(written(tmp_path / "a.jsonl", [ROWS[0], *bad, ROWS[1]]))
    assert found.requests == 2
    assert found.left_out.count == 4
    assert [row.where for row in found.left_out.first] == ["line 2", "line 3", "line 5", "line 6"]
    assert {doubt.key for doubt in found.doubts} == {"rows"}


def test_csv_rows_that_cannot_be_used(tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", "2023-11-16 18:17:03.9799600,4808,10", "yesterday,1,2"]
    lines += ["2023-11-16 18:17:04.0319600,-1,8", "2023-11-16 18:17:04.5,77", "2023-11-16 18:17:05,12,3,9"]
    path = tmp_path / "azure.csv"
    path.write_text("\r\n".join(lines))
    found = traces.read(path)
    assert found.inputs.tolist() == [4808, 12]
    assert [row.where for row in found.left_out.first] == ["line 3", "line 4", "line 5"]
    assert found.arrivals is not None
    assert np.ptp(found.arrivals) == pytest.approx(1.02004)


def test_burstgpt_and_vidur_columns(tmp_path: Path) -> None:
    burst = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
    )
    (tmp_path / "b.csv").write_text(burst + "45,ChatGPT,1087,230,1317,Conversation log\n")
    found = traces.read(tmp_path / "b.csv")
    assert (found.format, found.inputs.tolist()) == ("burstgpt", [472, 1087])
    (tmp_path / "v.csv").write_text(
        "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.8\n"
    )
    lone = traces.read(tmp_path / "v.csv")
    assert (lone.format, lone.arrivals) == ("vidur", None)


def test_a_block_size_that_the_lengths_do_not_settle_is_a_doubt(tmp_path: Path) -> None:
    found = api.traffic(written(tmp_path / "a.jsonl", [ROWS[2]]))
    assert found.reuse is not None
    assert found.reuse.block_size == 512
    (doubt,) = found.doubts
    assert doubt.text == "blocks are taken to hold 512 tokens; 1024 would agree with these lengths too"


def test_sessions_keep_their_ids_apart(tmp_path: Path) -> None:
    rows: list[object] = []
    for trace in (1, 2):
        rows.append({"trace": trace, "header": 1, "block_size": 64, "scope": "local"})
        rows += [{"trace": trace, "t": t, "in": 64 * n, "out": 1, "r": [[1, n]]} for t, n in ((0, 3), (5 + trace, 4))]
    found = api.traffic(written(tmp_path / "ranges.jsonl", rows))
    assert found.reuse is not None
    assert (found.reuse.blocks, found.reuse.ideal.hit_blocks, found.reuse.ideal.unique_blocks) == (14, 6, 8)


def test_files_are_merged_by_time(tmp_path: Path) -> None:
    one = written(tmp_path / "a.jsonl", [ROWS[0], ROWS[2]])
    two = written(tmp_path / "b.jsonl", [{**ROWS[1], "timestamp": 500}])
    whole = written(tmp_path / "c.jsonl", [ROWS[0], {**ROWS[1], "timestamp": 500}, ROWS[2]])
    assert api.traffic(one, two).reuse == api.traffic(whole).reuse
    azure = tmp_path / "azure.csv"
    azure.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n")
    with pytest.raises(BadInput, match="not one cache"):
        api.traffic(one, azure)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("hello\n", "is no trace that kvlab reads"),
        ('{"timestamp": 0, "input_length": -1, "output_length": 0, "hash_ids": []}\n', "no row that can be used, of 1"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no row that can be used, of 0"),
        ('{"timestamp": 0, "input_length": 9, "output_length": 0, "hash_ids": [1, 2, 3, 4, 5, 6]}\n', "no block size"),
    ],
)
def test_files_without_a_row_to_use(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "trace"
    path.write_text(content)
    with pytest.raises(BadInput, match=message) as caught:
        api.traffic(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(json.dumps(ROWS[0]).encode() + b"\n" for _ in range(999)))[:-40])
    with pytest.raises(BadInput, match="is damaged after line"):
        traces.read(path)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_one_line(content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(b'{"timestamp": 0, "input_length": 5, "output_length": 0, "hash_ids": [1]}\n' + content)
        file.flush()
        with suppress(BadInput):  # anything else is a traceback
            api.traffic(file.name)


def test_numbers_that_no_request_has_leave_their_row_out(tmp_path: Path) -> None:
    bad = [
        {**ROWS[0], "hash_ids": [0, 1 << 63]},
        {**ROWS[0], "input_length": 1 << 62},
        {**ROWS[0], "output_length": 1 << 80},
        {**ROWS[0], "timestamp": 1e300},
    ]
    found = api.traffic(written(tmp_path / "a.jsonl", [*bad, ROWS[1]]))
    assert (found.requests, found.left_out.count) == (1, 4)
    header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    (tmp_path / "a.csv").write_text(header + f"2023-11-16 18:17:03,{1 << 40},1\n9999-01-01 00:00:00,1,1\n")
    with pytest.raises(BadInput, match="holds no row that can be used, of 2"):
        api.traffic(tmp_path / "a.csv")


def test_sums_of_long_requests_stay_exact(tmp_path: Path) -> None:
    rows = "".join(f"{1 << 30},{1 << 30}\n" for _ in range(64))
    (tmp_path / "a.csv").write_text("num_prefill_tokens,num_decode_tokens\n" + rows)
    waste = {line.scheme.split()[0]: line.waste for line in api.traffic(tmp_path / "a.csv").paging}
    # prompt p and answer p: an oracle reserves 2p for each step and uses p + (p + 1) / 2 on average
    assert waste["oracle"] == pytest.approx(0.25)


def test_a_request_of_more_blocks_than_its_prompt_fills_is_left_out(tmp_path: Path) -> None:
    rows = [{**ROWS[1], "hash_ids": [2 * at, 2 * at + 1]} for at in range(200)]
    odd = {**ROWS[1], "hash_ids": list(range(400))}
    found = api.traffic(written(tmp_path / "a.jsonl", [*rows, odd, odd]))
    assert (found.requests, found.left_out.count) == (200, 2)
    assert found.reuse is not None
    assert found.reuse.ideal.hit_tokens == 0


HEADER = {"trace": 1, "header": 1, "block_size": 16}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"in": 32, "r": [[0, 1 << 33]]}, "more tokens than its prompt"),
        ({"in": 64, "r": [[0, 1], [1, 2]]}, "there twice"),
        ({"in": 64, "r": [[3, 2]]}, "ends before it begins"),
        ({"in": 64, "r": [[0, 1 << 64]]}, "Expected `int`"),
    ],
)
def test_ranges_that_are_no_prefix_leave_their_row_out(tmp_path: Path, row: dict[str, object], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        traces.read(written(tmp_path / "a.jsonl", [HEADER, {"trace": 1, "t": 0, "out": 1, **row}]))


@pytest.mark.parametrize("size", [0, -5, 1 << 63])
def test_a_block_size_that_is_none_is_refused(tmp_path: Path, size: int) -> None:
    rows = [{**HEADER, "block_size": size}, {"trace": 1, "t": 0, "in": 16, "out": 1, "r": [[0, 0]]}]
    with pytest.raises(BadInput, match="must state one block size"):
        traces.read(written(tmp_path / "a.jsonl", list(rows)))


def test_a_zstandard_file_is_read_to_its_end_or_refused(tmp_path: Path) -> None:
    line = json.dumps(ROWS[0]).encode() + b"\n"
    (tmp_path / "two").write_bytes(zstandard.compress(line) + zstandard.compress(line))
    assert len(traces.read(tmp_path / "two").inputs) == 2
    whole = zstandard.compress(b"".join(line.replace(b"700", b"%d" % at) for at in range(600, 800)))
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "none").write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 64)
    for name in ("cut", "none"):
        with pytest.raises(BadInput, match="damaged"):
            traces.read(tmp_path / name)


def test_a_name_is_one_file_whatever_its_letters(tmp_path: Path) -> None:
    text = "TIMESTAMP, ContextTokens, GeneratedTokens\n2023-11-16 18:17:03.9799600, {}, 20\n"
    for name, length in (("a*.csv", 7), ("ab.csv", 8), ("[b].csv", 9)):
        (tmp_path / name).write_text(text.format(length))
    assert [traces.read(tmp_path / name).inputs.tolist() for name in ("a*.csv", "[b].csv")] == [[7], [9]]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="not a regular file"):
        traces.read(tmp_path / "pipe", "azure")
    (tmp_path / "short.csv").write_text("TIMESTAMP,ContextTokens\n")
    with pytest.raises(BadInput, match="no column 'GeneratedTokens'"):
        traces.read(tmp_path / "short.csv", "azure")


def test_marks_of_byte_order_cost_no_row(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + json.dumps(ROWS[0]).encode() + b"\n")
    assert traces.read(tmp_path / "a").left_out.count == 0


def test_nonsense_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(BadInput, match="no trace that kvlab reads"):
        traces.read(tmp_path / "deep")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"capacities": (1.5,)}, "capacities"),
        ({"capacities": (10**30,)}, "capacities|--capacity"),
        ({"percentile": "a"}, "percentile"),
        ({"context": 1}, "--context 1 is shorter than the longest request, 1,031"),
        ({"bytes_per_token": 0}, "bytes_per_token"),
        ({"capacitys": (1,)}, "no option 'capacitys'; did you mean 'capacities'|capacities"),
        ({"form": 5}, "no trace format '5'"),
    ],
)
def test_questions_of_the_wrong_kind_get_one_line(tmp_path: Path, asked: dict[str, object], why: str) -> None:
    path = written(tmp_path / "a.jsonl", list(ROWS))
    with pytest.raises(BadInput, match=why):
        api.traffic(path, **asked)  # type: ignore[arg-type]


def test_one_file_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", list(ROWS))
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(BadInput, match="named twice"):
        api.traffic(path, tmp_path / "link")
    for nothing in ("", 5, None):
        with pytest.raises(BadInput, match="is no path"):
            api.traffic(nothing)  # type: ignore[arg-type]
