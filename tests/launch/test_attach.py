"""Attaching to servers that are not here: their pages, served by a stand-in, as the engines write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab import api
from kvlab.attach import read_server
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.serving import attached
from page_server import serving

GOLDEN = Path(__file__).parents[1] / "golden"


def models(owner: str) -> str:
    return json.dumps({"object": "list", "data": [{"id": "model", "owned_by": owner, "max_model_len": 2048}]})


LOADED = {"models": [{"name": "m", "size": 2_000_000_000, "size_vram": 2_000_000_000, "context_length": 4096}]}
SERVERS: dict[str, tuple[dict[str, str], str | None, dict[str, float | str]]] = {
    "vllm": (
        {
            "/v1/models": models("vllm"),
            "/version": '{"version":"0.32.0"}',
            "/metrics": (GOLDEN / "vllm" / "metrics" / "0.32.0_cpu_fresh.prom").read_text(),
        },
        "0.32.0",
        {"kv_tokens": 55_356, "max_model_len": 2048, "kv_cache_dtype": "auto", "running": 0},
    ),
    # Without --enable-metrics: its own description tells.
    "sglang": (
        {"/v1/models": models("sglang"), "/get_server_info": '{"version":"0.5.2","max_total_num_tokens":20480}'},
        "0.5.2",
        {"kv_tokens": 20_480},
    ),
    # Its list of models names nobody; /api/version is its own.
    "ollama": (
        {"/v1/models": models("library"), "/api/version": '{"version":"0.30.2"}', "/api/ps": json.dumps(LOADED)},
        "0.30.2",
        {"n_ctx_slot": 4096, "loaded_gpu_bytes": 2_000_000_000},
    ),
    "tensorrt-llm": (
        {
            "/v1/models": models("tensorrt_llm"),
            "/version": '{"version":"1.2.0"}',
            "/prometheus/metrics": "trtllm_kv_cache_max_blocks 2710\ntrtllm_kv_cache_tokens_per_block 32\n",
        },
        "1.2.0",
        {"kv_tokens": 86_720},
    ),
}


@pytest.mark.parametrize("engine", SERVERS)
def test_a_server_says_who_it_is_and_what_it_holds(engine: str) -> None:
    pages, version, values = SERVERS[engine]
    with serving(pages) as url:
        seen = read_server(url)
    assert (seen.engine, seen.version) == (engine, version)
    said = {item.name: item.value for item in seen.seen}
    assert {name: said.get(name) for name in values} == values
    assert all(item.line for item in seen.seen)


def test_check_lists_what_the_pages_say() -> None:
    with serving(SERVERS["vllm"][0]) as url:
        listed = {row.name: row.seen for row in api.check(url).rows}
    assert (listed["kv_tokens"], listed["max_model_len"]) == (55_356, 2048)


def test_a_server_that_is_watched_lists_only_what_lasts() -> None:
    tiers = (GOLDEN / "metrics" / "sglang_0.5.23_hicache.prom").read_text()
    with serving({**SERVERS["sglang"][0], "/metrics": tiers}) as url:
        names = {row.name for row in attached(url, None, None).check.rows}
    assert {"kv_tokens", "offload_tokens"} <= names
    assert not {"host_tier_used_tokens", "host_hits_tokens_total"} & names


def test_an_unknown_server_is_to_be_named() -> None:
    with serving({"/v1/models": models("somebody")}) as url, pytest.raises(BadInput, match="name it with --engine"):
        read_server(url)
    with serving(SERVERS["vllm"][0]) as url, pytest.raises(BadInput, match="says that it is vllm, not sglang"):
        read_server(url, "sglang")


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
@pytest.mark.parametrize("named", [True, False])
def test_a_port_that_serves_its_metrics_alone_is_diagnosed(engine: str, named: bool) -> None:
    """A sidecar, or a server that keeps its other paths from strangers: the page itself says whose it is."""
    page = next((path, text) for path, text in SERVERS[engine][0].items() if path.endswith("/metrics"))
    with serving(dict([page])) as url:
        for address in (url, url + page[0]):
            found = api.diagnose(address, seconds=0.3, engine=engine) if named else api.diagnose(address, seconds=0.3)
            assert found.engine == engine
        assert read_server(url).engine == engine


def test_a_saved_series_is_put_aside_and_not_lost(tmp_path: Path) -> None:
    (tmp_path / "series").write_text("yesterday")
    with serving({"/metrics": "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"}) as url:
        api.diagnose(url, seconds=0.3, save=str(tmp_path / "series"))
    assert (tmp_path / "series.old").read_text() == "yesterday"
    assert "kvlab/scrape@1" in (tmp_path / "series").read_text()


def test_a_series_that_cannot_be_put_aside_is_told_before_the_look(tmp_path: Path) -> None:
    (tmp_path / "series").write_text("yesterday")
    (tmp_path / "series.old").mkdir()
    with pytest.raises(BadInput, match="is a folder"):
        api.diagnose("http://127.0.0.1:9", seconds=60, save=str(tmp_path / "series"))
    assert (tmp_path / "series").read_text() == "yesterday"


def test_a_metrics_page_of_nobody_does_not_make_a_server() -> None:
    with (
        serving({"/metrics": "node_load1 0.5\n"}) as url,
        pytest.raises(ServerRefused, match="/v1/models answered 404"),
    ):
        api.diagnose(url, seconds=0.3)


def test_a_redirect_to_another_address_is_not_followed() -> None:
    """A mounted page may gain a slash; another server's numbers are not this server's."""
    pages = SERVERS["vllm"][0]
    with serving(pages) as other, serving({**pages, "/metrics": f"-> {other}/metrics"}) as url:
        with pytest.raises(ServerRefused, match=f"{url}/metrics redirects to {other}/metrics"):
            read_server(url)
        with pytest.raises(ServerRefused, match="redirects"):
            api.diagnose(url, seconds=0.3)
    for target, answers in (("/metrics/", True), ("/metrics", False), ("//", False)):
        with serving({**pages, "/metrics": f"-> {target}", "/metrics/": pages["/metrics"]}) as url:
            if answers:
                assert read_server(url).engine == "vllm"
            else:
                with pytest.raises(ServerRefused):
                    read_server(url)


def test_https_to_a_plain_port_has_a_reason() -> None:
    with serving(SERVERS["vllm"][0]) as url, pytest.raises(ServerRefused, match=r"connection came about \(.+http://"):
        read_server(url.replace("http:", "https:"))


class Flaky(dict[str, str]):
    """Pages of which the second look at /metrics, and each later one if `lasting`, is a proxy's."""

    def __init__(self, bad: str, lasting: bool) -> None:
        super().__init__(SERVERS["vllm"][0])
        self._bad, self._lasting, self._asked = bad, lasting, 0

    def get(self, path: str, default: object = None) -> str | None:  # type: ignore[override]
        self._asked += path == "/metrics"
        broken = path == "/metrics" and (self._asked == 2 or (self._lasting and self._asked > 2))
        return self._bad if broken else super().get(path)


@pytest.mark.parametrize("bad", ["<html>502</html>", "vllm:num_requests_running 1"])
def test_a_look_at_something_else_is_a_failed_look(bad: str) -> None:
    with serving(Flaky(bad, lasting=False)) as url:
        assert api.diagnose(url, seconds=1.0).looks >= 3
    with serving(Flaky(bad, lasting=True)) as url, pytest.raises(ServerRefused, match=f"{url}/metrics: "):
        api.diagnose(url, seconds=0.6)


@pytest.mark.parametrize("key", ["sk-0123456789abcdef", "vllm"])
def test_a_saved_series_holds_no_key(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang's /server_info repeats its api_key; a proxy's page may repeat the header."""
    monkeypatch.setenv("KVLAB_API_KEY", key)
    own = {"api_key": "sk-of-the-server", "admin_api_key": 'x"the-admins', "ssl_keyfile_password": "pw-of-tls"}
    own["tokenizer_path"] = "t"
    sglang = {
        "/v1/models": models("sglang"),
        "/server_info": json.dumps({**own, "command": "serve --api-key sk-typed -x", "max_total_num_tokens": 20480}),
        "/metrics": f"# Bearer {key}\nsglang:num_running_reqs 2.0\nsglang:num_queue_reqs 1\n",
    }
    vllm = {**SERVERS["vllm"][0], "/metrics": f"# Bearer {key}\n" + SERVERS["vllm"][0]["/metrics"]}
    for name, served in (("sglang", sglang), ("vllm", vllm)):
        path = tmp_path / f"{name}.jsonl"
        with serving(served) as url:
            live = api.diagnose(url, seconds=0.3, save=str(path))
        text = path.read_text()
        assert api.diagnose(str(path)).verdict == live.verdict
        assert f"Bearer {key}" not in text
        assert path.stat().st_mode & 0o777 == 0o600
        for secret in ("sk-of-the-server", "pw-of-tls", "sk-typed", "sk-0123", "the-admins"):
            assert secret not in text
        assert name == "vllm" or ("tokenizer_path" in text and "20480" in text)
