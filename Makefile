# Two commands on a fresh machine: `make demo` runs the whole loop on a real engine, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-vllm test-lm-eval test-llama test-ray lint unit types bench clean chromium

demo: $(STAMP)
	$(BIN)/kvlab demo

test: $(STAMP) chromium lint types unit

lint: $(STAMP)
	$(BIN)/ruff format --check src tests tests_vllm tests_ray benchmarks
	$(BIN)/ruff check src tests tests_vllm tests_ray benchmarks

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/pytest

# Real vLLM, some twenty minutes: scripts/setup_vllm_cpu.sh DIR, then make test-vllm VLLM=DIR
test-vllm: $(STAMP)
	@test -n "$(VLLM)" || { echo "name the folder made by scripts/setup_vllm_cpu.sh: make test-vllm VLLM=DIR"; exit 2; }
	KVLAB_VLLM=$(VLLM) $(BIN)/pytest tests_vllm

# lm-evaluation-harness on the embedded engine: pip install 'lm_eval[api]' into an environment of its own, then
# make test-lm-eval LM_EVAL=/path/to/lm_eval
test-lm-eval: $(STAMP)
	@test -n "$(LM_EVAL)" || { echo "name the program: make test-lm-eval LM_EVAL=/path/to/lm_eval"; exit 2; }
	KVLAB_LM_EVAL=$(LM_EVAL) $(BIN)/pytest tests/harness/test_lm_eval_real.py

# A llama-server of your own beside the embedded one: make test-llama SERVER=/path/to/llama-server
test-llama: $(STAMP)
	@test -n "$(SERVER)" || { echo "name a binary: make test-llama SERVER=/path/to/llama-server"; exit 2; }
	LLAMA_SERVER=$(SERVER) $(BIN)/pytest tests/launch/test_configurations.py

# Traffic read on a Ray of two workers that is started here; Ray is heavy, so it gets an environment of its own.
test-ray: $(VENV)-ray/.installed
	$(VENV)-ray/bin/pytest tests_ray

$(VENV)-ray/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ray
	$(VENV)-ray/bin/python -m pip install -q -e '.[traffic,ray,dev]'
	touch $@

# The report is looked at in a real browser: Debian's Chromium, installed when it is missing and that is allowed.
chromium:
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; }

bench: $(STAMP)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/client.py

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q -e '.[demo,traffic,dev]'
	$(BIN)/python -m compileall -q src/kvlab
	touch $(STAMP)

clean:
	rm -rf $(VENV) $(VENV)-ray
