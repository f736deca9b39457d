"""EAGLE-3 heads, in folders as they are published, guess from the model's states; the answer stays the model's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from sluicegate.engine import Engine, EngineSettings, LoadedModel, ModelSettings
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.checkpoints.eagle3 import read_eagle3
from sluicegate.engine.sequences.drafting import DraftAcceptance
from sluicegate.engine.speculation.chain_drafter import ChainDrafter
from sluicegate.plugins import ModelLoadError
from tests.engine.chains import guess_by_turns
from tests.engine.conftest import MakeModel
from tests.engine.driving import ScriptedGrammar, a_job, prompts, run, serving
from tests.engine.test_speculation import KINDS
from tests.engine.tiny_models import EOS, save_tiny

ALL: dict[str, Any] = {"prompt_lookup": False, "drafts_per_step": 64, "draft_tokens": 5}
DRAFT_VOCAB = 200
LAYERS = [2, 1, 2]
"""Before which of the tiny model's layers, in an order of their own; before its end `transformers` shows none."""


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess as far as there is room, whatever it is worth."""
    monkeypatch.setattr(DraftAcceptance, "length", lambda self, longest, cost: longest)


def tensors_of(seed: int = 0) -> dict[str, Tensor]:
    """Heads for the tiny model: 48 wide, of another inner width and other heads than it has."""
    torch.manual_seed(seed)
    shapes = {"self_attn.q_proj": (64, 96), "self_attn.k_proj": (32, 96), "self_attn.v_proj": (32, 96),
              "self_attn.o_proj": (48, 64), "mlp.gate_proj": (40, 48), "mlp.up_proj": (40, 48),
              "mlp.down_proj": (48, 40)}  # fmt: skip
    found = {f"midlayer.{name}.weight": torch.randn(shape) / shape[1] ** 0.5 for name, shape in shapes.items()}
    for norm in ("midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm", "norm"):
        found[f"{norm}.weight"] = 1 + 0.1 * torch.randn(48)
    found["fc.weight"] = torch.randn(48, 144) / 12
    found["lm_head.weight"] = torch.randn(DRAFT_VOCAB, 48)
    kept = torch.randperm(258)[:DRAFT_VOCAB].sort().values
    found["d2t"] = kept - torch.arange(DRAFT_VOCAB)
    found["t2d"] = torch.zeros(266, dtype=torch.bool).index_fill_(0, kept, True)
    return found


def save_heads(folder: Path, *, tensors: dict[str, Tensor] | None = None, pickled: bool = False, **said: Any) -> Path:
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": 48, "intermediate_size": 40,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 1, "vocab_size": 266,
        "draft_vocab_size": DRAFT_VOCAB, "rms_norm_eps": 1e-5, "max_position_embeddings": 512, "rope_theta": 10000.0,
        "eagle_aux_hidden_state_layer_ids": LAYERS, **said,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    tensors = tensors_of() if tensors is None else tensors
    if pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder


def with_chain(model: LoadedModel, folder: Path) -> LoadedModel:
    return replace(model, chain=read_eagle3(folder, model.module))


def plainly(
    tensors: dict[str, Tensor], module: Any, states: Tensor, tokens: list[int], count: int, even: bool
) -> Tensor:
    """Logits [count, V'] of the places after `tokens`, greedily guessed, as the paper's code computes them: one pass a
    guess over the whole text without a cache. `states` [T, 3d] of the model, of each token but the last."""
    config = LlamaConfig(hidden_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=16, rope_theta=1e4)
    rotary, own = LlamaRotaryEmbedding(config), {n.removeprefix("midlayer."): t for n, t in tensors.items()}

    def norm(name: str, x: Tensor) -> Tensor:
        return own[f"{name}.weight"] * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)

    hidden, text, found = linear(states, own["fc.weight"]), list(tokens), []
    for _ in range(count):
        normed = norm("hidden_norm", hidden)
        read = torch.cat([norm("input_layernorm", module.get_input_embeddings()(torch.tensor(text[1:]))), normed], -1)
        q, k, v = (
            linear(read, own[f"self_attn.{n}_proj.weight"]).unflatten(-1, (-1, 16)).transpose(0, 1)[None] for n in "qkv"
        )
        q, k = apply_rotary_pos_emb(q, k, *rotary(read, torch.arange(len(read))[None]))
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1).flatten(1)
        out = (normed if even else hidden) + linear(mixed, own["self_attn.o_proj.weight"])
        inner = norm("post_attention_layernorm", out)
        gated = silu(linear(inner, own["mlp.gate_proj.weight"])) * linear(inner, own["mlp.up_proj.weight"])
        out = out + linear(gated, own["mlp.down_proj.weight"])
        found.append(linear(norm("norm", out[-1]), own["lm_head.weight"]))
        best = int(found[-1].argmax())
        text.append(best + int(own["d2t"][best]))
        hidden = torch.cat([hidden, out[-1:]])
    return torch.stack(found)


def target_states(module: Any, tokens: list[int]) -> Tensor:
    """Return the three states [T, 3d] before `LAYERS`, by `transformers`."""
    with torch.inference_mode():
        embedded = module.get_input_embeddings()(torch.tensor([tokens]))
        kept = module.base_model(inputs_embeds=embedded, output_hidden_states=True, use_cache=False).hidden_states
    return torch.cat([kept[layer][0] for layer in LAYERS], -1)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("forward", ["auto", "transformers"])
def test_guesses_are_those_of_the_paper(
    even: bool, forward: Any, tiny: MakeModel, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """A prompt in chunks, then answers with guesses of which some come true, beside a plain computation."""
    from transformers import AutoModelForCausalLM

    model = with_chain(tiny("llama"), save_heads(tmp_path / "heads", norm_before_residual=even))
    module = AutoModelForCausalLM.from_pretrained(tiny_folder("llama"))
    runner = ModelRunner(model, 32, 4, RunnerOptions(forward=forward), watched=sorted(LAYERS))
    assert model.chain is not None
    drafter = ChainDrafter(model, model.chain, runner, 32)

    def right(tokens: list[int]) -> list[int]:
        best = plainly(tensors_of(), module, target_states(module, tokens[:-1]), tokens, 4, even).argmax(-1)
        found: list[int] = (best + tensors_of()["d2t"][best]).tolist()
        return found

    guess_by_turns(drafter, runner, right)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_answer_is_the_same_with_eagle(kind: str, tiny: MakeModel, tmp_path: Path) -> None:
    model = tiny("llama")
    jobs = [a_job(model, prompt, **{"max_tokens": 24, **KINDS[kind]}) for prompt in prompts([3, 11, 70])]
    async with serving(model, draft_tokens=0) as engine:
        plain = await run(engine, *jobs)
    async with serving(with_chain(model, save_heads(tmp_path / "heads")), **ALL) as engine:
        guessed = await run(engine, *jobs)
        again = await run(engine, *jobs)  # prefixes are reused, whose states nobody has seen
        stats = engine.stats()
    assert [(r.tokens, r.text, r.reasons) for r in guessed] == [(r.tokens, r.text, r.reasons) for r in plain]
    assert [r.tokens for r in again] == [r.tokens for r in plain]
    assert stats["tokens_drafted_total"] > 0


@pytest.mark.parametrize("forced", [False, True])
async def test_eagle_guesses_within_the_grammar_and_past_what_it_forces(
    forced: bool, tiny: MakeModel, tmp_path: Path
) -> None:
    model = tiny("llama")
    script = [{5}, {6}, set(range(40)), {20}, {7, 8}, {9}, {10}, {11}, set(range(200)), {12}, {13}]
    job = a_job(model, "the", grammar=ScriptedGrammar(script, EOS, forced=forced), temperature=1.0, seed=3, n=6)
    search = a_job(model, "the", use_beam_search=True, best_of=3, max_tokens=6)
    async with serving(model, draft_tokens=0, max_batch_size=16) as engine:
        plain = [result.tokens for result in await run(engine, job, search)]
    async with serving(with_chain(model, save_heads(tmp_path / "heads")), **ALL, max_batch_size=16) as engine:
        assert [result.tokens for result in await run(engine, job, search)] == plain
        assert engine.stats()["tokens_accepted_total"] > 0


async def test_scarce_blocks_change_no_answer(tiny: MakeModel, tmp_path: Path) -> None:
    """Sequences make way for each other, and the heads find no room."""
    model = tiny("llama")
    jobs = [a_job(model, prompt, max_tokens=40, ignore_eos=True) for prompt in prompts([30, 28, 33, 9])]
    async with serving(model, draft_tokens=0) as engine:
        plain = [result.tokens for result in await run(engine, *jobs)]
    async with serving(with_chain(model, save_heads(tmp_path / "heads")), **ALL, num_blocks=24) as engine:
        assert [result.tokens for result in await run(engine, *jobs)] == plain
        assert engine.stats()["preemptions_total"] > 0


@pytest.mark.parametrize("form", ["midlayer", "speculators", "pickled"])
async def test_folders_of_all_forms_are_read_from_where_the_operator_says(form: str, tmp_path: Path) -> None:
    folder, heads = save_tiny(tmp_path), tmp_path / "heads"
    if form == "speculators":
        renamed = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors_of().items()}
        layer = {"hidden_size": 48, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 16, "num_hidden_layers": 1, "rms_norm_eps": 1e-5}  # fmt: skip
        save_heads(heads, tensors=renamed, speculators_model_type="eagle3", transformer_layer_config=layer)
    else:
        save_heads(heads, pickled=form == "pickled")
    settings = ModelSettings(str(folder), name="m", heads=str(heads))
    engine = Engine(EngineSettings(models=(settings,), num_blocks=32, block_size=4, **ALL))
    await engine.start()
    try:
        model: Any = engine.models["m"]
        await run(engine, a_job(model, "the cat"))
        assert engine.stats()["tokens_drafted_total"] > 0
    finally:
        await engine.close()


@pytest.mark.parametrize(
    ("change", "said", "told"),
    [
        ({"fc.weight": torch.zeros(48, 96)}, {}, r"fc.weight is \[48, 96\], not \[48, 144\]"),
        ({"midlayer.self_attn.q_norm.weight": torch.ones(16)}, {}, "self_attn.q_norm.weight has no place"),
        ({"norm.weight": torch.full((48,), float("nan"))}, {}, "norm.weight is not finite"),
        (
            {"d2t": torch.zeros(DRAFT_VOCAB, dtype=torch.int64).index_fill(0, torch.tensor([0]), 1)},
            {},
            "are not so many",
        ),
        ({"d2t": torch.full((DRAFT_VOCAB,), 100)}, {}, "are not so many of the model's 266"),
        ({}, {"norm_before_fc": True}, "have norm_before_fc = True, which is not computed"),
        ({}, {"num_hidden_layers": 2}, "have 2 layers"),
        ({}, {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]}, "layers 2, 16, 29 of 3; they are another model's"),
        ({}, {"eagle_aux_hidden_state_layer_ids": 5}, "states before 5 .*expected three numbers of layers"),
        ({}, {"eagle_aux_hidden_state_layer_ids": ["1", "2", "1"]}, "expected three numbers of layers"),
        ({}, {"eagle_aux_hidden_state_layer_ids": [1, 2]}, "states before 2 layers; heads that read 3 are served"),
        ({}, {"rope_theta": float("nan")}, "rope_theta is nan; expected finite numbers"),
        ({}, {"rms_norm_eps": float("nan")}, "compute logits that are NaN"),
        ({"fc.weight": torch.ones(48, 144, dtype=torch.int32)}, {}, r"are codes, .*fc\.weight \(int32\)"),
        ({"fc.weight": torch.ones(48, 144).to(torch.float8_e4m3fn)}, {}, r"fc\.weight \(float8_e4m3fn\)"),
        ({"layers.0.self_attn.q_proj.weight": torch.ones(64, 96)}, {}, "hold a tensor under two names"),
    ],
)
def test_heads_that_do_not_fit_are_refused(
    change: dict[str, Tensor], said: dict[str, Any], told: str, tiny: MakeModel, tmp_path: Path
) -> None:
    folder = save_heads(tmp_path / "heads", tensors=tensors_of() | change, **said)
    with pytest.raises(ModelLoadError, match=told):
        read_eagle3(folder, tiny("llama").module)


def test_a_missing_tensor_and_a_damaged_file_are_told(tiny: MakeModel, tmp_path: Path) -> None:
    less = tensors_of()
    del less["lm_head.weight"]
    with pytest.raises(ModelLoadError, match=r"lm_head.weight is missing"):
        read_eagle3(save_heads(tmp_path / "less", tensors=less), tiny("llama").module)
    damaged = save_heads(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ModelLoadError, match="no whole safetensors file"):
        read_eagle3(damaged, tiny("llama").module)
