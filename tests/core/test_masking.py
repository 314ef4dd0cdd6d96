"""No password or key is repeated, and what only looks like one stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.masking import masked
from kvlab.core.observation import Seen


@pytest.mark.parametrize(
    "text",
    [
        "HTTP://user:SECRET@127.0.0.1:9",
        "no log at user:SECRET@host; check the path",
        "'http://user:pa/SECRET@h' is not an http address",
        "ftp://user:SECRET@h/x",
        "http:/user:SECRET@h/x",
        " http://:SECRET@h",
        "https://user:SECRET@h:9000/v1 and http://b:SECRET@h",
        "http://u:SECRETSECRETSECRET...",
        "http://u:8080SECRET@h",
        "http://u:pa@SECRET@h",
        "https://user:hf_SECRET@huggingface.co",
        "https://hf_SECRET@huggingface.co",
        "unknown argument --apikey sk-SECRETAPI; known: --list",
        "unknown argument --api-key SECRET; known: --list",
        "ServerArgs(model_path='m', api_key='SECRET', tp_size=1)",
        "args: {'api_key': ['SECRET', 'SECRET2'], 'port': 1}",
        '{"api_key": "SECRET"}',
        "HF_TOKEN=SECRET vllm serve",
        "headers: {'Authorization': 'Bearer SECRET'}",
        "Authorization: Basic SECRET",
        "got Bearer SECRET",
        "OPENAI_API_KEY=SECRET",
        "token hf_SECRETsecret is not valid",
        "--hf-token=SECRET",
        "api_key='SECRET and cut",
    ],
)
def test_secrets_are_not_repeated(text: str) -> None:
    assert "SECRET" not in masked(text)
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "started at 12:30@node",
        "ask someone@example.com",
        "http://127.0.0.1:8000/v1/models/org@main is not there",
        "'http://127.0.0.1:8000' wants an API key; set KVLAB_API_KEY",
        "hf_overrides={}, hf_token=None, api_key=None, tokenizer='m', max_tokens=12",
        "vllm/vllm-openai:v0.11.0@sha256:abcd",
        "--tiers '1000' must be NAME:SIZE, as in gpu:5000,cpu:200GiB@50GB/s",
        "set the token to the process: HF_TOKEN in its environment",
        "argument --api-key: expected one argument",
        "unknown argument --disk-gib 3; did you mean --offload-disk-gib?",
        "task-1234 [2026-11-30 08:30:00] kv_tokens: 12, bos token: 1",
        "/models/a:b/c.gguf",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert masked(text) == text


@given(st.text())
def test_any_text(text: str) -> None:
    assert masked(masked(text)) == masked(text)


def test_a_quoted_line_holds_no_key() -> None:
    seen = Seen(name="kv_tokens", value=1.0, unit="tokens", line="ServerArgs(api_key='SECRET', max_total_tokens=1)")
    assert seen.line == "ServerArgs(api_key=***, max_total_tokens=1)"
