"""How a tier is asked for, carried into artefacts, shown, and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab import api, cli, engines
from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.plan import Plan
from kvlab.deploy import artefacts
from kvlab.launch import Command, Server
from kvlab.preflight import refuse_little_memory

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def plan(qwen: Path) -> Callable[..., Plan]:
    """Qwen3-8B with options."""

    def made(**options: Any) -> Plan:
        stated = {"gpu": "h100-80gb", **options}
        return api.plan(qwen, **{name: value for name, value in stated.items() if value is not None})

    return made


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"offload": "hicache", "offload_gib": 8}, "it has native .*, lmcache .*, mooncake"),
        ({"offload": "native"}, "needs a size: give --offload-gib"),
        ({"offload_gib": 8}, "add --offload KIND"),
        ({"offload_disk_gib": 8}, "add --offload KIND"),
        ({"offload": "native", "offload_gib": -1}, "more than 0 GiB"),
        ({"offload": "native", "offload_gib": float("inf")}, "less than ten million"),
        ({"offload": "native", "offload_gib": 8, "host_gib": 0}, "--host-gib 0"),
        ({"offload": "mooncake", "offload_gib": 8, "offload_disk_gib": 8}, "with --offload native or lmcache only"),
        ({"offload": "lmcache", "offload_gib": 8, "offload_dir": "/nvme"}, "add --offload-disk-gib"),
        ({"offload": "native", "offload_gib": 8, "prefix_caching": False}, "leave out --no-prefix-caching"),
        ({"offload": "native", "offload_gib": 8, "engine_version": "0.11.0"}, "0.11.2 and later"),
        ({"offload": "mooncake", "offload_gib": 8, "engine_version": "0.20.0"}, "0.21.0 and later"),
        ({"offload": "native", "offload_gib": 8, "offload_disk_gib": 9, "engine_version": "0.31.0"}, "0.32 and later"),
        ({"offload": "native", "offload_gib": 8, "engine_args": {"kv-transfer-config": "{}"}}, "give one of them"),
        ({"engine_args": {"kv-offloading-size": "8"}}, "use --offload native --offload-gib"),
        ({"engine": "lmdeploy", "offload": "native", "offload_gib": 8}, "no tier of LMDeploy"),
        ({"engine": "sglang", "offload": "hicache", "gpu": None}, "give --offload-gib X, or --gpu NAME"),
        ({"engine": "sglang", "offload": "hicache", "offload_gib": 0.5}, "whole GB"),
        ({"engine": "sglang", "engine_args": {"hicache-size": "8"}}, "use --offload hicache --offload-gib"),
        ({"engine": "sglang", "offload": "hicache", "offload_gib": 8, "prefix_caching": False}, "radix cache"),
        ({"engine": "tensorrt-llm", "offload": "host", "offload_gib": 8, "offload_disk_gib": 9}, "no tier that kvlab"),
        ({"engine": "llamacpp", "engine_args": {"cache-ram": "many"}, "context": 4096}, "must be MiB"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(plan: Callable[..., Plan], options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        plan(**options)
    assert "\n" not in str(refused.value)


def test_vllm_does_not_offload_from_a_cpu_as_its_own_log_says() -> None:
    said = (GOLDEN / "offload" / "vllm_0.32_cpu_native.log").read_text()
    assert "only supported on CUDA-alike and XPU GPUs" in said
    with pytest.raises(BadInput, match="leave it out on a CPU"):
        api.plan(GOLDEN / "configs" / "Qwen__Qwen3-8B.json", gpu="cpu", offload="native", offload_gib=1)


def test_a_model_with_states_needs_the_hybrid_manager() -> None:
    with pytest.raises(BadInput, match="does not start; use native or mooncake"):
        api.plan(GOLDEN / "configs" / "Qwen__Qwen3-Next-80B-A3B-Instruct.json", offload="lmcache", offload_gib=8)


def test_a_multiple_of_several_pools_is_not_taken_for_nothing() -> None:
    config = GOLDEN / "configs" / "Qwen__Qwen3-Next-80B-A3B-Instruct.json"
    options: dict[str, Any] = {"engine": "sglang", "gpu": "h200-141gb", "tp": 2, "offload": "hicache"}
    with pytest.raises(BadInput, match="several pools takes is not known; give --offload-gib"):
        api.plan(config, **options)
    (tier,) = api.plan(config, **options, offload_gib=40).tiers
    assert (tier.bytes, tier.tokens) == (2 * 21 * 10**9, None)


def test_sizes_are_those_of_the_whole_server(plan: Callable[..., Plan]) -> None:
    for options, flag in (
        ({"offload": "native", "offload_gib": 64}, ("--kv-offloading-size", "64")),
        ({"offload": "native", "offload_gib": 64, "dp": 2}, ("--kv-offloading-size", "32")),
        ({"engine": "sglang", "offload": "hicache", "offload_gib": 64}, ("--hicache-size", "34")),
        ({"engine": "sglang", "offload": "hicache"}, ("--hicache-ratio", "2")),
    ):
        argv = plan(tp=2, **options).launch.argv
        assert argv[argv.index(flag[0]) + 1] == flag[1]


def test_mooncake_is_configured_by_its_file(plan: Callable[..., Plan]) -> None:
    found = plan(tp=2, offload="mooncake", offload_gib=64)
    config = json.loads(found.launch.files["mooncake.json"])
    assert config["global_segment_size"] == 32 << 30
    assert found.launch.env["MOONCAKE_CONFIG_PATH"] == "mooncake.json"
    assert {line.name: line.bytes for line in found.host}["mooncake_buffers"] == 2 * config["local_buffer_size"]


def test_vllms_files_below_its_memory_have_no_limit(plan: Callable[..., Plan]) -> None:
    found = plan(offload="native", offload_gib=64, offload_disk_gib=500, offload_dir="/nvme/kv")
    config = json.loads(found.launch.argv[found.launch.argv.index("--kv-transfer-config") + 1])
    extra = config["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == 64 << 30
    assert extra["secondary_tiers"] == [{"type": "fs", "root_dir": "/nvme/kv"}]
    assert any(doubt.key == "offload-disk-gib" for doubt in found.doubts)
    assert [tier.kind for tier in found.tiers] == ["host", "disk"]


def test_artefacts_hold_the_file_the_memory_and_the_disk(plan: Callable[..., Plan]) -> None:
    found = artefacts(plan(gpus=2, offload="lmcache", offload_gib=64, offload_disk_gib=500))
    assert "export LMCACHE_CONFIG_FILE=lmcache.yaml" in found["launch.sh"]
    assert 'cd "$(dirname "$0")"' in found["launch.sh"]
    settings = yaml.safe_load(found["lmcache.yaml"])
    assert (settings["max_local_cpu_size"], settings["max_local_disk_size"]) == (32, 250)
    (service,) = yaml.safe_load(found["docker-compose.yaml"])["services"].values()
    assert service["environment"]["LMCACHE_CONFIG_FILE"] == "/kvlab/lmcache.yaml"
    made = {"create_host_path": True}
    disk = {"type": "bind", "source": "./kv-offload", "target": "/kv-offload", "bind": made}
    assert disk in service["volumes"]
    assert service["deploy"]["resources"]["reservations"]["memory"] == "68gb"
    pod = next(
        document["spec"]["template"]["spec"]
        for document in yaml.safe_load_all(found["kubernetes.yaml"])
        if document["kind"] == "Deployment"
    )
    assert pod["containers"][0]["resources"]["requests"] == {"memory": "68Gi"}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["offload"] == {"name": "offload", "emptyDir": {"sizeLimit": "500Gi"}}


def test_vllms_region_lies_in_shared_memory(plan: Callable[..., Plan]) -> None:
    found = artefacts(plan(gpus=2, offload="native", offload_gib=64))
    (service,) = yaml.safe_load(found["docker-compose.yaml"])["services"].values()
    assert service["shm_size"] == "68gb"


def test_files_of_the_environment_are_written_beside_the_log(tmp_path: Path) -> None:
    reads = "import os; print(open(os.environ['LMCACHE_CONFIG_FILE']).read())"
    what = Command(
        engine="vllm",
        argv=(sys.executable, "-c", reads),
        env={"LMCACHE_CONFIG_FILE": "lmcache.yaml"},
        port=1,
        files={"lmcache.yaml": "chunk_size: 256\n"},
    )
    log = tmp_path / "engine.log"
    with Server(what, log) as server, pytest.raises(EngineFailed):
        server.wait_ready()
    assert "chunk_size: 256" in log.read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"engine.log", "engine.lmcache.yaml"}


def test_a_tier_larger_than_this_machine_is_not_started(plan: Callable[..., Plan]) -> None:
    with pytest.raises(BadInput, match="of this machine's memory"):
        refuse_little_memory(plan(offload="native", offload_gib=100_000))
    refuse_little_memory(plan())


def test_the_terminal_and_the_json_show_the_tier(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", str(qwen), "--gpu", "h100-80gb", "--offload", "native", "--offload-gib", "64"]
    assert cli.main([*words, "--host-gib", "32", "--strict"]) == 1
    said = capsys.readouterr().out
    assert "Tiers below the GPU's cache" in said
    assert "--kv-offloading-size 64" in said
    assert "Memory of the machine" in said
    # 64 GiB of --offload-gib in 32 GiB of --host-gib: the headline must not say that the plan fits.
    assert said.startswith("Not on this machine: its 32 GiB of memory do not hold the 64 GiB")
    assert cli.main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["code"] == "fits"  # of one request on the GPU, as ever
    (tier,) = document["tiers"]
    assert {"name", "kind", "bytes", "bytes_per_rank", "tokens", "requests", "granularity", "flag", "because"} <= set(
        tier
    )
    assert tier["requests"] == tier["tokens"] / document["kv"]["context"]


def test_the_help_names_the_kinds_that_each_engine_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["plan", "--help"])
    said = (
        " ".join(capsys.readouterr().out.split()).partition("keep what leaves the GPU: ")[2].partition(" (default")[0]
    )
    kinds = {engine: engines.offloading(engine).kinds for engine in engines.names()}
    assert set(said.split("; ")) == {f"{', '.join(found)} ({engine})" for engine, found in kinds.items() if found}


def test_an_unknown_kind_ends_with_2(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", str(qwen), "--offload", "tape", "--offload-gib", "1"]) == 2
    assert "no tier of vLLM; it has native" in capsys.readouterr().err


def test_a_disk_folder_is_mounted_as_it_is_named(plan: Callable[..., Plan]) -> None:
    stated = {"offload": "lmcache", "offload_gib": 64, "offload_disk_gib": 500}
    found = artefacts(plan(**stated, offload_dir="/mnt/$HOME"))
    (service,) = yaml.safe_load(found["docker-compose.yaml"])["services"].values()
    assert ("/mnt/$$HOME", "/mnt/$$HOME") in [(one["source"], one["target"]) for one in service["volumes"]]
    with pytest.raises(BadInput, match="root of the container"):
        artefacts(plan(**stated, offload_dir="."))
    with pytest.raises(BadInput, match="colon"):
        artefacts(plan(**stated, offload_dir="/mnt/a:b"))


@pytest.mark.parametrize("size", [1e-9, 0.0005, 0.001])
def test_a_tier_that_holds_no_block_is_refused(plan: Callable[..., Plan], size: float) -> None:
    with pytest.raises(BadInput, match="block"):
        plan(offload="native", offload_gib=size)


@pytest.mark.parametrize(
    "options",
    [
        {"offload": "lmcache", "offload_gib": 8, "offload_disk_gib": 8, "offload_dir": "/a\x1bb"},
        {"engine_args": {"served-model-name": "a\x1b[31m"}},
        {"engine_args": {"served-model-name": "a\nb"}},
    ],
)
def test_control_characters_reach_no_script(plan: Callable[..., Plan], options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"control character|name of a folder"):
        plan(**options)


def test_json_may_stand_on_several_lines(plan: Callable[..., Plan]) -> None:
    text = '{"a":\n 1}'
    found = artefacts(plan(engine_args={"additional-config": text}))
    assert yaml.safe_load(found["vllm_config.yaml"])["additional-config"] == text
