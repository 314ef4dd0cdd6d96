"""Architectures that LMDeploy's two engines have a model for, in 0.18.0.

Sources: lmdeploy/turbomind/supported_models.py and lmdeploy/pytorch/models/module_map.py.
"""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.lmdeploy.versions import MODELS_READ, release

TURBOMIND = frozenset(
    {
        *("Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen2VLForConditionalGeneration"),
        *("Qwen2_5_VLForConditionalGeneration", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM"),
        *("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
        *("InternS2PreviewForConditionalGeneration", "InternS2MobiusForConditionalGeneration", "InternVLChatModel"),
        *("InternVLForConditionalGeneration", "InternS1ForConditionalGeneration", "LlamaForCausalLM"),
        *("InternLM2ForCausalLM", "InternLM3ForCausalLM", "Glm4MoeLiteForCausalLM", "GptOssForCausalLM"),
        "MixtralForCausalLM",
    }
)
_PYTORCH = frozenset(
    {
        *("ChatGLMForConditionalGeneration", "CogVLMForCausalLM", "DeepseekForCausalLM"),
        *("DeepseekV2ForCausalLM", "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM"),
        *("DeepseekVLV2ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
        *("GemmaForCausalLM", "Glm4ForCausalLM", "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM"),
        *("Glm4vForConditionalGeneration", "GlmMoeDsaForCausalLM", "GptOssForCausalLM", "HYV3ForCausalLM"),
        *("InternLM2ForCausalLM", "InternLM3ForCausalLM", "InternS1ForConditionalGeneration"),
        *("InternS1ProForConditionalGeneration", "InternS1_1_ForConditionalGeneration"),
        *("InternS2MobiusForCausalLM", "InternS2MobiusForConditionalGeneration", "InternS2PreviewForCausalLM"),
        *("InternS2PreviewForConditionalGeneration", "InternVLChatModel", "InternVLForConditionalGeneration"),
        *("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"),
        *("Llama4ForConditionalGeneration", "LlamaForCausalLM", "LlavaForConditionalGeneration"),
        *("MetaMoeForConditionalGeneration", "MiniCPM3ForCausalLM", "MiniCPMV", "MistralForCausalLM"),
        *("MixtralForCausalLM", "Phi3ForCausalLM", "Phi3VForCausalLM", "PhiMoEForCausalLM", "Qwen2ForCausalLM"),
        *("Qwen2MoeForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
        *("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "Qwen3OmniMoeForConditionalGeneration"),
        *("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
        *("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "SDARForCausalLM"),
        "SDARMoeForCausalLM",
    }
)
_SPARSE = frozenset({"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"})


def check_model(model: Model, ask: Ask) -> None:
    """Raises BadInput for an architecture that no engine of LMDeploy has a model for.

    Releases after the one that was read may have more, so theirs are not refused.
    """
    if not model.architectures or release(ask) > MODELS_READ:
        return
    if not (TURBOMIND | _PYTORCH) & set(model.architectures):
        raise BadInput(f"LMDeploy 0.18 has no model for {', '.join(model.architectures)}; plan it for vllm")


def is_sparse(model: Model) -> bool:
    """Whether latents are read through an indexer (DeepSeek V3.2, GLM-5)."""
    return bool(_SPARSE & set(model.architectures))
