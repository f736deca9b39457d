"""Layers for further tokens (MTP) inside a checkpoint: read as they are published, or left aside; never in the way."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM

from sluicegate.engine import Engine, EngineSettings, LoadedModel, ModelSettings, load_model
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.construction import load
from sluicegate.engine.sequences.drafting import DraftAcceptance
from sluicegate.engine.speculation.chain_drafter import ChainDrafter
from sluicegate.plugins import ModelLoadError
from tests.engine.chains import guess_by_turns
from tests.engine.driving import a_job, prompts, run, serving
from tests.engine.test_speculation import KINDS
from tests.engine.tiny_models import SHAPE, byte_tokenizer

ALL: dict[str, Any] = {"prompt_lookup": False, "drafts_per_step": 64, "draft_tokens": 5}
COUNT, WIDTH, VOCAB = 2, SHAPE["hidden_size"], SHAPE["vocab_size"]
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
_ROUTED = {**_EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1}
_LATENT = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
KIND: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek": (
        "DeepseekV3Config",
        {**_ROUTED, **_LATENT, "topk_group": 1, "head_dim": 8, "num_key_value_heads": 4},
    ),
    "glm": ("Glm4MoeConfig", {**_ROUTED, "topk_group": 1, "use_qk_norm": True}),
    "qwen3_next": (
        "Qwen3NextConfig",
        {**_EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 32},
    ),
    "mimo": ("Qwen2Config", {}),
    "qwen2": ("Qwen2Config", {}),
}
"""What an MTP layer is made of; the last is MiMo's under the name of what it is."""
BESIDE = {"token": "enorm", "state": "hnorm", "join": "eh_proj", "norm": "shared_head.norm"}
BELOW = {"token": "pre_fc_norm_embedding", "state": "pre_fc_norm_hidden", "join": "fc", "norm": "norm"}
APART = {"token": "token_layernorm", "state": "hidden_layernorm", "join": "input_proj", "norm": "final_layernorm"}
FORMS = {
    "deepseek": ("model.layers.2.", "model.layers.2.", BESIDE),
    "glm": ("model.layers.2.", "model.layers.2.", BESIDE),
    "qwen3_next": ("mtp.", "mtp.layers.0.", BELOW),
    "mimo": ("model.mtp_layers.0.", "model.mtp_layers.0.", APART),
    "qwen2": ("model.mtp_layers.0.", "model.mtp_layers.0.", APART),
}
"""Where such a layer's own modules are, where its decoder layer's are, and what the former are called."""


def thoroughly(family: str) -> Any:
    return pytest.param(family, marks=pytest.mark.thorough)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess as far as there is room, whatever it is worth."""
    monkeypatch.setattr(DraftAcceptance, "length", lambda self, longest, cost: longest)


class PlainCheckpoint:
    """A checkpoint with an MTP layer, and what it guesses, by the classes of `transformers` alone."""

    def __init__(self, family: str) -> None:
        kind, extra = KIND[family]
        said = {**SHAPE, **extra, "num_hidden_layers": COUNT + 1}
        if family == "qwen3_next":
            said["layer_types"] = ["full_attention"] * (COUNT + 1)
        self.family = family
        self.config = getattr(transformers, kind)(**said, attn_implementation="eager")
        torch.manual_seed(3)
        self.model: Any = AutoModelForCausalLM.from_config(self.config, dtype=torch.float32).eval()
        self.layer = self.model.model.layers[COUNT]
        self.norms = {name: copy.deepcopy(self.model.model.norm) for name in ("token", "state", "norm")}
        for norm in (*self.norms.values(), self.model.model.norm):
            torch.nn.init.normal_(norm.weight, 1.0, 0.2)
        self.join = torch.randn(WIDTH, 2 * WIDTH) / (2 * WIDTH) ** 0.5
        self.head, self.embedding = self.model.lm_head.weight.detach(), self.model.model.embed_tokens.weight.detach()

    def save(self, folder: Path, change: dict[str, Tensor | None] | None = None, **said: Any) -> Path:
        """Save the checkpoint. `change` holds tensors that are other ones, or none."""
        self.model.save_pretrained(folder)
        byte_tokenizer().save_pretrained(folder)
        top, inner, names = FORMS[self.family]
        tensors = {
            name.replace(f"model.layers.{COUNT}.", inner): tensor
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        own = {"join": self.join, **{name: norm.weight.detach() for name, norm in self.norms.items()}}
        tensors |= {f"{top}{names[name]}.weight": tensor for name, tensor in own.items()}
        if names is BESIDE:
            tensors |= {f"{top}shared_head.head.weight": self.head, f"{top}embed_tokens.weight": self.embedding}
        kept = {name: tensor for name, tensor in (tensors | (change or {})).items() if tensor is not None}
        save_file({name: tensor.clone() for name, tensor in kept.items()}, folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": COUNT} | said
        if "layer_types" in config:
            config["layer_types"] = config["layer_types"][:COUNT]
        if self.family == "mimo":
            config |= {"model_type": "mimo", "architectures": ["MiMoForCausalLM"],
                       "auto_map": {"AutoConfig": "configuration_mimo.MiMoConfig"}}  # fmt: skip
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def guesses(self, tokens: list[int], count: int = 4) -> list[int]:
        """Return what is guessed to follow `tokens`, one pass over the whole text a guess."""
        main, text, found = self.model.model, list(tokens), []
        with torch.inference_mode():
            hidden = main.norm(self._through(main.layers[:COUNT], main.embed_tokens.weight[tokens[:-1]]))
            for _ in range(count):
                read, known = self.norms["token"](self.embedding[text[1:]]), self.norms["state"](hidden)
                order = [known, read] if FORMS[self.family][2] is APART else [read, known]
                out = self.norms["norm"](self._through([self.layer], linear(torch.cat(order, -1), self.join)))
                found.append(int(linear(out[-1], self.head).argmax()))
                text.append(found[-1])
                hidden = torch.cat([hidden, out[-1:]])
        return found

    def _through(self, layers: Any, states: Tensor) -> Tensor:
        places = torch.arange(len(states))[None]
        mask = torch.full((len(states), len(states)), float("-inf")).triu(1)[None, None]
        turns = self.model.model.rotary_emb(states[None], places)
        for layer in layers:
            out = layer(states[None], attention_mask=mask, position_embeddings=turns, position_ids=places)
            states = (out[0] if isinstance(out, tuple) else out)[0]
        return states


def loaded(folder: Path, **said: Any) -> LoadedModel:
    return load(ModelSettings(str(folder), name="m", heads="mtp", **said))


@pytest.mark.parametrize("family", FORMS)
def test_guesses_are_those_of_the_layer_in_the_checkpoint(family: str, tmp_path: Path) -> None:
    plain = PlainCheckpoint(family)
    folder = plain.save(tmp_path / "m")
    for forward in ("auto", "transformers") if family == "mimo" else ("auto",):
        model = loaded(folder)
        assert model.chain is not None
        assert not any("MTP" in note for note in model.notes)
        runner = ModelRunner(model, 32, 4, RunnerOptions(forward=forward), watched=model.chain.layers)
        guess_by_turns(ChainDrafter(model, model.chain, runner, 32), runner, plain.guesses)


def test_tables_of_its_own_are_used(tmp_path: Path) -> None:
    """Published ones repeat the model's; others may not."""
    plain = PlainCheckpoint("deepseek")
    torch.manual_seed(4)
    plain.head, plain.embedding = torch.randn(VOCAB, WIDTH), torch.randn(VOCAB, WIDTH)
    model = loaded(plain.save(tmp_path / "m"))
    assert model.chain is not None
    runner = ModelRunner(model, 32, 4, watched=model.chain.layers)
    guess_by_turns(ChainDrafter(model, model.chain, runner, 32), runner, plain.guesses)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("deepseek", "greedy"),
        ("mimo", "cut"),
        *(pytest.param(family, kind, marks=pytest.mark.thorough) for family in FORMS for kind in KINDS),
    ],
)
async def test_the_answer_is_the_same_with_mtp(family: str, kind: str, tmp_path: Path) -> None:
    folder = PlainCheckpoint(family).save(tmp_path / "m")
    model = loaded(folder)
    jobs = [a_job(model, prompt, **{"max_tokens": 16, **KINDS[kind]}) for prompt in prompts([3, 11, 70])]
    async with serving(model, draft_tokens=0) as engine:
        plain = await run(engine, *jobs)
    async with serving(model, **ALL, num_blocks=48) as engine:
        guessed = await run(engine, *jobs)
        again = await run(engine, *jobs)  # prefixes are reused, whose states nobody has seen
        stats = engine.stats()
    assert [(r.tokens, r.text, r.reasons) for r in guessed] == [(r.tokens, r.text, r.reasons) for r in plain]
    assert [r.tokens for r in again] == [r.tokens for r in plain]
    assert stats["tokens_drafted_total"] > 0


async def test_an_operator_asks_for_it_by_a_word(tmp_path: Path) -> None:
    folder = PlainCheckpoint("glm").save(tmp_path / "m")
    settings = ModelSettings(str(folder), name="m", heads="mtp")
    engine = Engine(EngineSettings(models=(settings,), num_blocks=32, block_size=4, weights="int8", **ALL))
    await engine.start()
    try:
        model: Any = engine.models["m"]
        await run(engine, a_job(model, "the cat"))
        assert engine.stats()["tokens_drafted_total"] > 0
    finally:
        await engine.close()


@pytest.mark.parametrize(("family", "weights"), [*((family, "full") for family in FORMS), ("glm", "int8")])
def test_without_the_word_it_is_left_aside_and_said(family: str, weights: Any, tmp_path: Path) -> None:
    folder = PlainCheckpoint(family).save(tmp_path / "m")
    for _ in range(2):  # the second load may be by code of our own
        model = load(ModelSettings(str(folder), name="m"), weights=weights)
        assert model.chain is None
        assert any("holds 1 MTP layer, left aside: heads = 'mtp' uses one" in note for note in model.notes)
        assert not any("mtp" in name or f"layers.{COUNT}." in name for name, _ in model.module.named_parameters())


def test_of_several_the_first_guesses_and_the_note_says_so(tmp_path: Path) -> None:
    plain = PlainCheckpoint("mimo")
    folder = plain.save(tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    second = {n.replace("_layers.0.", "_layers.1."): torch.zeros_like(t) for n, t in tensors.items() if "mtp_" in n}
    save_file(tensors | second, folder / "model.safetensors")
    model = loaded(folder)
    assert "heads = 'mtp' uses the first of 2 MTP layers" in model.notes
    assert model.chain is not None
    runner = ModelRunner(model, 32, 4, watched=model.chain.layers)
    guess_by_turns(ChainDrafter(model, model.chain, runner, 32), runner, plain.guesses)


@pytest.mark.parametrize("family", FORMS)
def test_a_tensor_that_such_layers_do_not_have_is_refused_also_where_they_are_left_aside(
    family: str, tmp_path: Path
) -> None:
    top = FORMS[family][0]
    folder = PlainCheckpoint(family).save(tmp_path / "m", {f"{top}gate_of_its_own.weight": torch.ones(WIDTH)})
    with pytest.raises(ModelLoadError, match=r"hold tensors that are not known there: .*gate_of_its_own\.weight"):
        load_model(folder)


@pytest.mark.parametrize("family", ["deepseek", "mimo", *(thoroughly(name) for name in ("glm", "qwen3_next"))])
@pytest.mark.parametrize("fault", ["missing norm", "narrow join", "missing layer", "no number", "shape"])
def test_a_layer_that_does_not_fit_is_refused_by_name(family: str, fault: str, tmp_path: Path) -> None:
    top, inner, names = FORMS[family]
    join, norm, out = f"{top}{names['join']}.weight", f"{top}{names['state']}.weight", f"{inner}self_attn.o_proj.weight"
    changes: dict[str, tuple[dict[str, Tensor | None], str]] = {
        "missing norm": ({norm: None}, rf"{names['state']}|{'state_norm'}.*missing"),
        "narrow join": ({join: torch.zeros(WIDTH, WIDTH)}, rf"{names['join']}.weight \(\[48, 48\]\)"),
        "missing layer": ({out: None}, r"1 missing: model\.layers\.0\.self_attn\.o_proj\.weight"),
        "no number": ({norm: torch.full((WIDTH,), float("nan"))}, "holds numbers that are NaN"),
        "shape": ({out: torch.zeros(WIDTH, 8)}, r"o_proj\.weight is \[48, 8\]"),
    }
    change, told = changes[fault]
    folder = PlainCheckpoint(family).save(tmp_path / "m", change)
    with pytest.raises(ModelLoadError, match=told):
        loaded(folder)
    load_model(folder)  # what is left aside is not looked at


def test_a_layer_beyond_the_last_that_is_no_mtp_layer_has_no_place(tmp_path: Path) -> None:
    folder = PlainCheckpoint("deepseek").save(tmp_path / "m", {"model.layers.2.eh_proj.weight": None})
    with pytest.raises(ModelLoadError, match="has no place for"):
        load_model(folder)


def test_a_model_without_such_layers_says_so(tiny_folder: Callable[..., Path]) -> None:
    for path in (str(tiny_folder("llama")), "bundled"):
        with pytest.raises(ModelLoadError, match=r"has heads = 'mtp', but holds no layers for further tokens"):
            load(ModelSettings(path, heads="mtp"))
