"""Try which architectures of `transformers` are served, by a tiny random model each: equal to `generate`, or refused
why.

    python -m benchmarks.architectures                       # all of them, some ten minutes; prints the table
    python -m benchmarks.architectures llama qwen3 mamba     # these
    python -m benchmarks.architectures --write               # and writes docs/architectures.md
    python -m benchmarks.architectures --kept FILE           # goes on where an earlier run with that file ended
    python -m benchmarks.architectures --halves              # the checkpoints in bfloat16, as most are published

For each kind that `AutoModelForCausalLM` knows, a small configuration is made, a random model saved, loaded by the
engine and asked: prompts of three lengths together, chunked, with few blocks, greedily. `equal`: every answer is that
of `generate` in float32, token for token (of the same file, widened). Each kind runs in a process of its own, forked
from one that has imported the libraries, so that its memory is freed, and its CPU time and memory are bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from benchmarks import common
from benchmarks.shapes import numbered_words

PAGE = Path(__file__).parents[1] / "docs" / "architectures.md"
VOCAB, TOKENS, PROMPTS = 200, 16, (3, 17, 40)
MOST_PARAMETERS = 10_000_000
CPU_S, MEMORY_BYTES = 120, 12 << 30
"""What a kind may take: processor time, and address space, most of it libraries'."""
FIELDS: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 64, "n_embd": 64, "d_model": 64, "intermediate_size": 64,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256, "n_positions": 256,
    "max_seq_len": 256, "rotary_dim": 8,
    "initializer_range": 0.4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "moe_topk": 2, "moe_k": 2, "expert_ffn_hidden_size": 32, "ffn_hidden_size": 64,
    "sliding_window": 9,
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "first_k_dense_replace": 1, "ffn_dim": 64, "word_embed_proj_dim": 64, "num_layers": 2, "num_heads": 4,
    "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_num_heads": 4, "linear_head_dim": 16, "mamba_d_ssm": 64, "mamba_d_state": 16, "mamba_chunk_size": 8,
    "ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 16, "chunk_size": 8,
}  # fmt: skip
"""Of these a kind gets those that its configuration has with a number or nothing in it."""
_EYE = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "depth": 1,
    "num_heads": 2, "out_hidden_size": 64, "image_size": 28, "patch_size": 14,
}  # fmt: skip
_PARTS: dict[str, dict[str, Any]] = {"text_config": {}, "vision_config": _EYE}
"""Configurations inside that of a model which sees, and fields of the eye."""
HEAD = """\
Written by `python -m benchmarks.architectures --write KINDS` with transformers {version}, whose `AutoModelForCausalLM`
knows {all} kinds: {here} of them, each as a tiny random model of plain fields. *equal*: greedy answers are those of
`generate` in float32, token for token, for three prompts together, chunked, in scarce blocks. *refused*: at load, with
the reason. *not tried*: a tiny model could not be made so, which says nothing of the kind."""
_LINEAR = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16}
_GEMMA = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
_LATENT = {"num_key_value_heads": 4, "head_dim": 8}
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid", "kimi_linear"), _LINEAR),
    "olmo_hybrid": {**_LINEAR, "num_key_value_heads": 4},
    "kimi_linear": {**_LINEAR, **_LATENT, "num_experts_per_tok": 2},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "falcon_h1": {"mamba_n_heads": 4, "mamba_d_head": 16},
    "bamba": {**_MAMBA, "attn_layer_indices": [1]},
    "granitemoehybrid": {**_MAMBA, "layer_types": ["mamba", "attention"], "shared_intermediate_size": 64},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
        "num_hidden_layers": 4,
        "moe_shared_expert_intermediate_size": 32,
        "n_groups": 2,
    },
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 8},
    "zamba": {
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "attention_head_dim": 32,
        "n_mamba_heads": 2,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid"],
    },
    "zamba2": {
        "num_key_value_heads": 4,
        "n_mamba_heads": 8,
        "layers_block_type": ["linear_attention", "hybrid"],
        "adapter_rank": 8,
    },
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 16},
    "lfm3": {"layer_types": ["conv", "full_attention"]},
    "bailing_hybrid": {
        **_LINEAR,
        "num_key_value_heads": 4,
        "num_experts": 4,
        "head_dim": 16,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
    },
    "sarvam_mla": _LATENT,
    "dots3_note_text": {"num_key_value_heads": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 9, "hidden_size": 64},
    "gemma3n_text": {
        **_GEMMA,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": VOCAB,
        "activation_sparsity_pattern": [0.0, 0.0],
        "laurel_rank": 8,
    },
    "gemma4_text": {
        **_GEMMA,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": VOCAB,
        "global_head_dim": 16,
    },
    "mamba2": {"num_heads": 8, "head_dim": 16, "n_groups": 1, "state_size": 16, "expand": 2},
    **dict.fromkeys(("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu"), _LATENT),
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "mpt": {"n_heads": 4, "d_model": 64},
    "phimoe": {"sliding_window": None},  # published ones have one as wide as their context
}
"""Where these numbers do not go together."""


def main() -> None:
    asked = _parser().parse_args()
    if asked.write and asked.limit:
        raise SystemExit("the table holds every model type: --write goes without --limit")
    kinds = (asked.kinds or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))[: asked.limit or None]
    found = _outcomes(kinds, asked.kept, torch.bfloat16 if asked.halves else torch.float32)
    chosen = {kind: found[kind] for kind in kinds}
    page = _page(chosen)
    print(page)
    if asked.write:
        PAGE.write_text(page, encoding="utf-8")
    common.report(asked, chosen)


def _parser() -> argparse.ArgumentParser:
    parser = common.parser(__doc__, None, 0, "model types")
    parser.add_argument("kinds", nargs="*", help="model types, as config.json names them; none: all")
    parser.add_argument("--write", action="store_true", help=f"write the table to docs/{PAGE.name}")
    parser.add_argument("--kept", type=Path, help="a file of outcomes, a line each, which this run adds to")
    parser.add_argument("--halves", action="store_true", help="save the models in bfloat16")
    return parser


def _outcomes(kinds: list[str], kept: Path | None, dtype: torch.dtype) -> dict[str, dict[str, str]]:
    """Try all kinds that `kept` does not know; return how each ended and why."""
    found: dict[str, dict[str, str]] = {}
    if kept is not None and kept.exists():
        found = dict(json.loads(line) for line in kept.read_text("utf-8").splitlines())
    torch.set_num_threads(1)
    for kind in kinds:
        if kind in found:
            continue
        found[kind] = one = _in_a_process(kind, dtype)
        print(f"{kind}: {one['ends']} {one['why']}", file=sys.stderr, flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([kind, one]) + "\n")
    return found


def _in_a_process(kind: str, dtype: torch.dtype) -> dict[str, str]:
    """Try a kind in a child of this process."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                said.write(json.dumps(_tried(kind, Path(folder), dtype)).encode())
                said.flush()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        if answer := said.read():
            found: dict[str, str] = json.loads(answer)
            return found
    why = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "an error that is not the engine's"
    return {"ends": "not tried", "why": f"its process ended by {why} within {CPU_S} s of processor time"}


def _tried(kind: str, folder: Path, dtype: torch.dtype = torch.float32) -> dict[str, str]:
    """Make, load and ask a model of `kind`."""
    from sluicegate.engine import load_model
    from sluicegate.plugins import ModelLoadError

    try:
        save_kind(kind, folder / "model", dtype)
    except Exception as error:
        return {"ends": "not tried", "why": f"no tiny model by plain fields ({type(error).__name__}: {error})"}
    try:
        model = load_model(folder / "model", name="tiny")
    except ModelLoadError as error:
        return {"ends": "refused", "why": str(error).replace(f"{str(folder / 'model')!r}", "")}
    found = asyncio.run(answers(model))
    expected = [generated(folder / "model", prompt) for prompt in prompts()]
    if found != expected:
        return {"ends": "different", "why": f"{sum(a != b for a, b in zip(found, expected, strict=True))} of 3 answers"}
    return {"ends": "equal", "why": ""}


def save_kind(kind: str, to: Path, dtype: torch.dtype) -> None:
    """Save a tiny random model of `kind`. Raises what `transformers` raises where plain fields make none."""
    config = _config(kind)
    with torch.device("meta"):
        count = sum(one.numel() for one in AutoModelForCausalLM.from_config(config).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(f"it would have {count:,} parameters")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.to(dtype).save_pretrained(to)
    numbered_words(VOCAB).save_pretrained(to)


def _config(kind: str) -> Any:
    made = transformers.CONFIG_MAPPING[kind]
    plain = made().to_dict()
    fields = {**_of(plain), **OWN.get(kind, {})}
    for part, small in _PARTS.items():
        if isinstance(inner := plain.get(part), dict):
            known = {name: value for name, value in small.items() if name in inner}
            fields[part] = (
                {**_of(inner), **OWN.get(inner.get("model_type", ""), {})} if part == "text_config" else known
            )
    return made(**fields)


def _of(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in FIELDS.items()
        if name == "tie_word_embeddings" or (name in plain and not isinstance(plain[name], (bool, dict, list, str)))
    }


def prompts() -> list[list[int]]:
    """Return the tokens of three prompts."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, VOCAB, (length,), generator=generator).tolist() for length in PROMPTS]


async def answers(model: Any) -> list[list[int]]:
    """Return what the engine answers to `prompts`, together and chunked."""
    from sluicegate.engine import Engine, EngineSettings
    from sluicegate.plugins import Job, Prompt, Sampling

    settings = EngineSettings(block_size=4, num_blocks=26, max_batch_size=3, max_batch_tokens=16, threads=1)
    engine = Engine(settings, [model])
    await engine.start()
    try:
        sampling = Sampling(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
        jobs = [Job(f"j{i}", model.name, Prompt("", tuple(p)), sampling) for i, p in enumerate(prompts())]
        return await asyncio.gather(*[_collected(await engine.generate(job)) for job in jobs])
    finally:
        await engine.close()


async def _collected(generation: Any) -> list[int]:
    return [token async for piece in generation for token in piece.token_ids]


@torch.inference_mode()
def generated(folder: Path, prompt: list[int]) -> list[int]:
    """Return what `generate` answers, by the model's own eager attention."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    model.generation_config.eos_token_id = None
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
    answer: list[int] = out[0, len(prompt) :].tolist()
    return answer


def _page(found: dict[str, dict[str, str]]) -> str:
    ends = [one["ends"] for one in found.values()]
    counts = ", ".join(f"{ends.count(end)} {end}" for end in ("equal", "refused", "different", "not tried"))
    rows = [f"| `{kind}` | {one['ends']} | {_short(one['why'])} |" for kind, one in sorted(found.items())]
    return "\n".join(
        [
            "# Architectures",
            "",
            HEAD.format(version=transformers.__version__, all=len(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), here=len(found)),
            "",
            f"{counts}.",
            "",
            "| model type | ends | why |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _short(why: str) -> str:
    """Return a reason as a cell of the table: without line ends and bars, and not long."""
    plain = re.sub(r"\s+", " ", why).strip(" :").replace("|", "/").replace("<", "&lt;").replace("/tmp/", "")
    return plain if len(plain) <= 180 else plain[:177] + "..."


if __name__ == "__main__":
    main()
