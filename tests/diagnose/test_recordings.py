"""Saved series: what kvlab writes, what others left, and what is damaged."""

from __future__ import annotations

import bz2
import csv
import gzip
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vllm_pages import capacity

from kvlab import recordings
from kvlab.core.diagnosis import Scrape
from kvlab.core.errors import BadInput, KvlabError

SAVED = Path(__file__).parents[1] / "golden" / "diagnose"
RECORDED = SAVED.parent / "metrics"


def test_a_csv_is_read_row_by_row() -> None:
    path = SAVED / "vllm_log_scale300.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    looks = recordings.read(str(path))
    assert len(looks) == len(rows)
    assert max(look.reading.values["running"] for look in looks) == 256
    # per cent in the file
    assert max(look.reading.values["kv_used_ratio"] for look in looks) == pytest.approx(0.375, abs=0.001)
    assert looks[-1].seconds == pytest.approx(float(rows[-1]["timestamp"]) - float(rows[0]["timestamp"]))


def test_rows_without_a_time_need_the_seconds_between_them() -> None:
    path = str(RECORDED / "vllm_0.32_capacity.csv")
    assert recordings.read(path, None, 12.0)[-1].seconds == 12 * 21
    with pytest.raises(BadInput, match="--seconds"):
        recordings.read(path)


def test_what_kvlab_saves_it_reads_again(tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    scrapes = [Scrape(time=1e9 + at, engine="vllm", pages={"/metrics": page}) for at, page in enumerate(capacity())]
    path.write_bytes(b"".join(msgspec.json.encode(scrape) + b"\n" for scrape in scrapes))
    first, last = recordings.read(str(path))
    assert (first.seconds, last.seconds) == (0, 1)
    assert last.reading.values["preemptions_total"] - first.reading.values["preemptions_total"] == 18


def saved(time: float, engine: str = "vllm", text: str = "vllm:num_requests_running 3\n") -> str:
    return msgspec.json.encode(Scrape(time=time, engine=engine, pages={"/metrics": text})).decode() + "\n"


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_only_a_line_feed_ends_a_line_of_a_saved_series(end: str, tmp_path: Path) -> None:
    path = tmp_path / "series.jsonl"
    path.write_text("".join(saved(at, text=f'vllm:num_requests_running{{model_name="a{end}b"}} 3\n') for at in (1, 2)))
    assert [look.reading.values["running"] for look in recordings.read(str(path))] == [3, 3]


@pytest.mark.parametrize("file", [SAVED / "vllm_log_scale300.csv", RECORDED / "vllm_0.32_capacity.csv"])
def test_a_csv_that_was_cut_in_its_last_row_is_refused(file: Path, tmp_path: Path) -> None:
    text = file.read_text()
    path = tmp_path / "cut.csv"
    start = text.rstrip("\n").rindex("\n") + 1
    for cut in range(start + 1, len(text)):
        path.write_text(text[:cut])
        with pytest.raises(BadInput, match="row"):
            recordings.read(str(path), None, 1.0)
    path.write_text(text[: start + 6] + "\n")
    with pytest.raises(BadInput, match="columns"):
        recordings.read(str(path), None, 1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("<html><body>login</body></html>", "HTML"),
        ("node_load1 0.3\n", "no engine that kvlab knows"),
        ("hello there, this is no scrape\n", "not Prometheus text"),
        ("timestamp,prompt_throughput,generation_throughput,num_running,num_pending\n", "no rows"),
        ("timestamp,prompt_throughput,generation_throughput,num_running,num_pending\n5,1,1,2,x\n", "row 2"),
        ("timestamp,prompt_throughput,generation_throughput,num_running,num_pending\n5,1,1,2,3\n4,1,1,2,3\n", "row 3"),
        ('{"schema":"kvlab/scrape@1","time":1,"engine":"vllm"}\n', "line 1"),
        (saved(1, "vlm"), "line 1: .*vllm"),
        (saved(1).replace('{"/metrics"', '{},"x":{"/metrics"'), "line 1 holds no page"),
        (saved(1) + saved(1), "line 2 is not later"),
        (saved(2) + saved(1), "line 2 is not later"),
        (saved(1) + saved(2, "sglang"), "line 2 is sglang's"),
        (saved(1) + saved(2, text="<html>"), "line 2: .*not Prometheus"),
        (saved(1.7e12), "line 1 states 1.7e\\+12 s"),
        (saved(-1), "line 1 states -1 s"),
        (saved(0) + saved(1e9), "line 2 is 11,574 days"),
    ],
)
def test_what_is_no_series_is_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "scrape"
    path.write_text(text)
    with pytest.raises(BadInput, match=says) as refused:
        recordings.read(str(path))
    assert "\n" not in str(refused.value)


@given(cut=st.integers(0, 19_000), junk=st.binary(max_size=40))
def test_a_damaged_series_is_a_line_and_no_traceback(
    cut: int, junk: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = (SAVED / "vllm_log_scale2000.csv").read_bytes()
    path = tmp_path_factory.mktemp("cut") / "series.csv"
    path.write_bytes(content[:cut] + junk + content[cut + 60 :])
    try:
        looks = recordings.read(str(path))
    except KvlabError:
        looks = ()
    assert all(0 <= value <= 1 << 60 for look in looks for value in look.reading.values.values())


def test_a_scrape_packed_with_gzip_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.prom.gz"
    page.write_bytes(gzip.compress(capacity()[0].encode()))
    assert recordings.read(str(page))[0].reading.values["waiting"] == 19
    page.write_bytes(page.read_bytes()[:-400])
    with pytest.raises(BadInput, match="damaged gzip file"):
        recordings.read(str(page))
    page.write_bytes(bz2.compress(b"vllm:num_requests_running 1"))
    with pytest.raises(BadInput, match="unpack it"):
        recordings.read(str(page))


def test_two_pages_in_one_file_are_not_one_server_twice_as_busy(tmp_path: Path) -> None:
    vllm = gzip.decompress((RECORDED / "vllm_0.32_2_capacity_t17.prom.gz").read_bytes()).decode()
    llama = (RECORDED / "llama_server_01_under_load_12clients_4slots.prom").read_text()
    for name, text, says in (
        ("twice", vllm + vllm, "states .*vllm:.* twice"),
        ("two engines", vllm + llama, "series of llamacpp and vllm"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(BadInput, match=says):
            recordings.read(str(path))


@pytest.mark.parametrize("file", [RECORDED / "vllm_0.32_2_capacity_t17.prom.gz", SAVED / "vllm_log_scale300.csv"])
def test_another_engine_than_the_files_is_refused(file: Path) -> None:
    with pytest.raises(BadInput, match="vllm's, not sglang's"):
        recordings.read(str(file), "sglang")
