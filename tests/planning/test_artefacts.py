"""The files that a plan is deployed from: read back by real parsers, with flags that the engines really have."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kvlab import api, cli, flagcheck
from kvlab.core.errors import BadInput
from kvlab.core.plan import Plan
from kvlab.deploy import COMPOSE, KUBERNETES, PLACEHOLDER, SCRIPT, artefacts

GOLDEN = Path(__file__).parents[1] / "golden"
LLAMA_8B = GOLDEN / "configs" / "meta-llama__Llama-3.1-8B.json"
KNOWN = {
    "vllm": frozenset((GOLDEN / "vllm" / "options_0.32.0.txt").read_text().split()),
    "llamacpp": frozenset((GOLDEN / "llamacpp" / "options_b11434.txt").read_text().split()),
}
EVERYTHING: dict[str, dict[str, Any]] = {
    "vllm": {
        "tp": 2,
        "pp": 2,
        "dp": 2,
        "dcp": 1,
        "ep": 2,
        "kv_dtype": "fp8",
        "block_size": 32,
        "max_num_batched_tokens": 4096,
        "max_num_seqs": 64,
        "prefix_caching": False,
    },
    "llamacpp": {
        "kv_dtype": "q8_0",
        "parallel": 4,
        "kv_unified": False,
        "swa_full": True,
        "ubatch": 256,
        "prefix_caching": False,
    },
}


def plan(**options: Any) -> Plan:
    return api.plan(LLAMA_8B, gpu="h100-80gb", context=8192, **options)


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
def test_every_flag_is_one_that_the_engine_lists(engine: str) -> None:
    assert flagcheck.unknown(plan(engine=engine, **EVERYTHING[engine]).launch.argv, KNOWN[engine]) == ()
    assert flagcheck.unknown(plan(engine=engine).launch.argv, KNOWN[engine]) == ()


def test_the_config_file_holds_what_the_engine_lists() -> None:
    keys = yaml.safe_load(plan(**EVERYTHING["vllm"]).launch.files["vllm_config.yaml"])
    assert {f"--{key}" for key in keys if key != "model"} <= KNOWN["vllm"]
    recurrent = api.plan(
        GOLDEN / "configs" / "Qwen__Qwen3-Next-80B-A3B-Instruct.json", gpu="b200-180gb", mamba_cache_mode="align"
    )
    assert flagcheck.unknown(recurrent.launch.argv, KNOWN["vllm"]) == ()


def test_a_flag_that_is_not_listed_is_found() -> None:
    argv = ("vllm", "serve", "m", "--max-model-len", "8", "--kv_cache_dtype=fp8", "--turbo", "--no-such-thing")
    assert flagcheck.unknown(argv, KNOWN["vllm"]) == ("--turbo", "--no-such-thing")


def test_compose_starts_the_planned_command() -> None:
    planned = plan(tp=4)
    (compose,) = documents(artefacts(planned)[COMPOSE])
    service = compose["services"]["vllm"]
    words = [*service["entrypoint"], *service["command"]]
    expected = [*planned.launch.argv[:2], PLACEHOLDER, *planned.launch.argv[3:]]  # a config alone names no model
    assert words == ["0.0.0.0" if word == "127.0.0.1" else word for word in expected]
    assert service["image"] == "vllm/vllm-openai:v0.32.0"
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 4, "capabilities": ["gpu"]}
    assert service["shm_size"] == "8gb"


def test_kubernetes_objects_refer_to_each_other() -> None:
    found = {each["kind"]: each for each in documents(artefacts(plan(tp=2, dp=2))[KUBERNETES])}
    assert set(found) == {"PersistentVolumeClaim", "Deployment", "Service"}
    spec = found["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert (
        spec["selector"]["matchLabels"]
        == spec["template"]["metadata"]["labels"]
        == found["Service"]["spec"]["selector"]
    )
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    shm = next(volume for volume in pod["volumes"] if volume["name"] == "shm")
    assert shm["emptyDir"]["medium"] == "Memory"
    claim = next(volume for volume in pod["volumes"] if volume["name"] == "cache")["persistentVolumeClaim"]["claimName"]
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]
    # 16 GB of weights, and a fifth to spare
    assert found["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"] == "18Gi"
    assert container["startupProbe"]["httpGet"] == {"path": "/health", "port": "http"}
    assert found["Service"]["spec"]["ports"][0]["port"] == container["ports"][0]["containerPort"] == 8000


def test_a_download_goes_where_the_hub_library_looks() -> None:
    """HF_HOME names the folder, whoever the image runs as (huggingface_hub's environment variables)."""
    written = artefacts(plan())
    (compose,) = documents(written[COMPOSE])
    service = compose["services"]["vllm"]
    assert service["environment"]["HF_HOME"] in {volume["target"] for volume in service["volumes"]}
    deployment = next(each for each in documents(written[KUBERNETES]) if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["HF_HOME"] in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_tokens_are_named_and_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_do_not_write_me")
    written = artefacts(plan())
    assert not any("hf_do_not_write_me" in text for text in written.values())
    (compose,) = documents(written[COMPOSE])
    assert compose["services"]["vllm"]["environment"]["HF_TOKEN"] == "${HF_TOKEN:-}"
    deployment = next(each for each in documents(written[KUBERNETES]) if each["kind"] == "Deployment")
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    (token,) = (each for each in environment if each["name"] == "HF_TOKEN")
    assert token["valueFrom"]["secretKeyRef"] == {"name": "hf-token", "key": "token", "optional": True}


def test_the_script_is_the_command(tmp_path: Path) -> None:
    planned = plan(engine_args={"speculative-config": '{"method": "ngram", "num_speculative_tokens": 2}'})
    paths = api.artefacts(planned, tmp_path / "deploy")
    assert {path.name for path in paths} == {SCRIPT, COMPOSE, KUBERNETES, "vllm_config.yaml"}
    script = tmp_path / "deploy" / SCRIPT
    assert script.stat().st_mode & 0o111
    subprocess.run(["/bin/sh", "-n", script], check=True)
    lines = [line for line in script.read_text().splitlines() if not line.startswith("#")]
    words = shlex.split("\n".join(lines).partition("exec ")[2].replace("\\\n", " "))
    assert tuple(words) == (*planned.launch.argv[:2], PLACEHOLDER, *planned.launch.argv[3:])
    (compose,) = documents((tmp_path / "deploy" / COMPOSE).read_text())
    assert '{"method": "ngram", "num_speculative_tokens": 2}' in compose["services"]["vllm"]["command"]


def read_only(source: str, target: str) -> dict[str, Any]:
    """Compose's long form of a volume."""
    return {"type": "bind", "source": source, "target": target, "read_only": True}


def test_a_folder_whose_name_compose_would_split_or_fill_in(tmp_path: Path) -> None:
    folder = tmp_path / "g$HOME:x"
    folder.mkdir()
    (folder / "config.json").write_text(LLAMA_8B.read_text())
    (compose,) = documents(artefacts(api.plan(folder, gpu="h100-80gb", context=8192))[COMPOSE])
    expected = read_only(f"{tmp_path}/g$$HOME:x", "/models/g$$HOME-x")
    assert expected in compose["services"]["vllm"]["volumes"]


def test_files_and_models_of_this_machine_are_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "models--org--name" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(LLAMA_8B.read_text())
    planned = api.plan(folder, gpu="h100-80gb", context=8192, engine="tensorrt-llm")
    (compose,) = documents(artefacts(planned)[COMPOSE])
    service = compose["services"]["tensorrt-llm"]
    # The snapshots of the Hub's cache are links to the folder's blobs.
    assert read_only(f"{tmp_path / 'models--org--name'}", "/models/models--org--name") in service["volumes"]
    assert "/models/models--org--name/snapshots/abc" in service["command"]
    assert read_only("./trtllm_config.yaml", "/kvlab/trtllm_config.yaml") in service["volumes"]
    assert "/kvlab/trtllm_config.yaml" in service["command"]
    kinds = [each["kind"] for each in documents(artefacts(planned)[KUBERNETES])]
    assert kinds == ["ConfigMap", "Deployment", "Service"]


def test_every_file_and_the_model_of_an_engine_that_takes_no_hub_id_are_mounted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(LLAMA_8B.read_text())
    planned = api.plan(tmp_path, gpu="h100-80gb", context=8192, engine="ollama")
    (compose,) = documents(artefacts(planned)[COMPOSE])
    service = compose["services"]["ollama"]
    inside = f"/models/{tmp_path.name}"
    assert [*service["entrypoint"], *service["command"]] == ["sh", "/kvlab/serve.sh", "/kvlab/Modelfile", inside]
    assert service["volumes"] == [
        read_only("./serve.sh", "/kvlab/serve.sh"),
        read_only("./Modelfile", "/kvlab/Modelfile"),
        read_only(str(tmp_path), inside),
    ]
    assert service["environment"]["OLLAMA_HOST"] == "0.0.0.0:11434"


def test_amd_gpus_get_their_devices() -> None:
    (compose,) = documents(artefacts(api.plan(LLAMA_8B, gpu="mi300x-192gb", context=8192))[COMPOSE])
    service = compose["services"]["vllm"]
    assert service["devices"] == ["/dev/kfd", "/dev/dri"]
    assert "deploy" not in service


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"gpu": "max1550-64gb"}, "no public image"),
        ({"gpu": "h100-80gb", "tp": 8, "pp": 2}, "more than one machine"),
        ({"gpu": "h100-80gb", "engine": "ollama"}, "ollama takes no Hub id"),
    ],
)
def test_what_cannot_be_right_is_left_out_with_its_reason(options: dict[str, Any], reason: str) -> None:
    written = artefacts(api.plan(LLAMA_8B, context=8192, **options))
    assert COMPOSE not in written
    assert KUBERNETES not in written
    assert reason in written[SCRIPT]


def test_an_installed_engine_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    options = " ".join(sorted(KNOWN["vllm"] - {"--max-model-len"}))
    program.write_text(f'#!/bin/sh\necho asked >> "{tmp_path}/calls"\necho "{options}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):
        checked = api.checked_flags(plan())
        assert [doubt.key for doubt in checked.doubts][-1] == "--max-model-len"
    assert (tmp_path / "calls").read_text() == "asked\n"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert api.checked_flags(plan()) == plan()


def test_nothing_is_written_where_one_file_cannot_be(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / COMPOSE)
    with pytest.raises(BadInput, match=f"{COMPOSE} is no regular file"):
        api.artefacts(plan(), tmp_path)
    assert os.listdir(tmp_path) == [COMPOSE]
    with pytest.raises(BadInput, match="is no path"):
        api.artefacts(plan(), "")


def test_a_plan_names_no_file_outside_the_folder(tmp_path: Path) -> None:
    good = plan()
    bad = msgspec.structs.replace(good, launch=msgspec.structs.replace(good.launch, files={"../evil": "x"}))
    with pytest.raises(BadInput, match="outside the folder"):
        api.artefacts(bad, tmp_path / "deploy")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("script", "known"),
    [
        (r"printf '\377 '; for i in $(seq 30); do printf -- '--opt%d \377\n' $i; done", 30),
        ("head -c 50000000 /dev/zero | tr '\\0' '-'", None),
        ("kill -9 $$", None),
        ("for i in $(seq 30); do echo --opt$i; done; sleep 300 &", 30),
    ],
)
def test_an_engine_that_prints_no_list_of_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, known: int | None
) -> None:
    (tmp_path / "vllm").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(flagcheck, "_HELP_SECONDS", 5)
    found = flagcheck.installed(plan())
    assert (None if found is None else len(found)) == known


def test_a_config_alone_leaves_a_placeholder_for_the_model() -> None:
    config = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B-FP8.json"
    found = artefacts(api.plan(config, gpu="rtx4090-24gb", context=8192))
    for name, text in found.items():
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert any("NAME-THE-MODEL-HERE" in line for line in lines), name
        assert not any("Qwen__" in line for line in lines), name
    for name in (SCRIPT, COMPOSE, KUBERNETES):
        assert "# NAME-THE-MODEL-HERE: a config alone was planned" in found[name]


def test_comments_of_a_container_speak_of_its_own_address() -> None:
    found = artefacts(plan())
    assert "--host 127.0.0.1: loopback only" in found[SCRIPT]
    for name in (COMPOSE, KUBERNETES):
        assert "loopback only" not in found[name]
        assert "# --host 0.0.0.0: " in found[name]


def test_what_was_there_before_is_said_to_be_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B-FP8.json"
    words = ["plan", str(config), "--gpu", "rtx4090-24gb", "--context", "8192", "--write", str(tmp_path / "out")]
    assert cli.main(words) == 0
    assert "replaced" not in capsys.readouterr().err
    assert cli.main([*words, "--util", "0.8"]) == 0
    said = capsys.readouterr().err
    assert f"kvlab: replaced {tmp_path / 'out' / SCRIPT}" in said
    assert "wrote" not in said
