"""A checkpoint is served whole, with its own numbers, or refused by the name of what does not fit."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from sluicegate.engine import load_model
from sluicegate.plugins import ModelLoadError
from tests.engine.tiny_models import FAMILIES, OTHERS, save_tiny

Folder = Callable[..., Path]
State = dict[str, torch.Tensor]


def changed(folder: Path, to: Path, change: Callable[[State], State | None]) -> Path:
    """Copy a checkpoint with other tensors."""
    made = Path(shutil.copytree(folder, to / "changed"))
    state = load_file(made / "model.safetensors")
    save_file(change(state) or state, made / "model.safetensors", {"format": "pt"})
    return made


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_no_tensor_of_a_checkpoint_may_be_missing(family: str, tiny_folder: Folder, tmp_path: Path) -> None:
    """Each kind of tensor in turn: the first, the last, and of each name without its layer one."""
    state = load_file(tiny_folder(family) / "model.safetensors")
    kinds = {re.sub(r"\d+", "*", name): name for name in state}
    for at, name in enumerate([*kinds.values()][:: max(1, len(kinds) // 4)]):
        folder = changed(
            tiny_folder(family), tmp_path / str(at), lambda s, gone=name: {k: s[k] for k in s if k != gone}
        )
        with pytest.raises(ModelLoadError, match=r"missing: |of another shape: |could not be loaded| lacks .*experts"):
            load_model(folder)


CHANGES: dict[str, tuple[Callable[[State], State], str]] = {
    "a prefix": (
        lambda s: {f"module.{name}": s[name] for name in s},
        r"missing: .*names begin with 'module\.'; save the model itself",
    ),
    "other names": (
        lambda s: {name.replace("self_attn", "attention"): s[name] for name in s},
        r"12 missing: model\.layers\.0\.self_attn\.k_proj\.weight, .* and 9 more; 12 that .* has no place for",
    ),
    "one layer too many": (
        lambda s: s | {name.replace("s.2.", "s.3."): s[name].clone() for name in s if "layers.2." in name},
        r"9 that LlamaForCausalLM has no place for: model\.layers\.3\.",
    ),
    "another width": (
        lambda s: s | {"model.layers.1.mlp.up_proj.weight": torch.zeros(60, 48)},
        r"of another shape: model\.layers\.1\.mlp\.up_proj\.weight is \[60, 48\], not \[64, 48\]",
    ),
    "a bias it does not have": (
        lambda s: s | {"model.layers.1.self_attn.q_proj.bias": torch.zeros(64)},
        r"no place for: model\.layers\.1\.self_attn\.q_proj\.bias",
    ),
    "nothing": (lambda s: {"x": torch.zeros(1)}, "missing: "),
}


@pytest.mark.parametrize("weights", ["full", "int8"])
@pytest.mark.parametrize("case", CHANGES)
def test_tensors_that_do_not_fit_are_refused_by_name(
    case: str, weights: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    change, message = CHANGES[case]
    with pytest.raises(ModelLoadError, match=message):
        load_model(changed(tiny_folder("llama"), tmp_path, change), weights=weights)  # type: ignore[arg-type]


@pytest.mark.parametrize(("order", "message"), [
    ((0, 1, 2, 4), r"lacks model\.layers\.1\..*experts\.3\.w1\.weight: 4 experts"),
    ((1, 2, 3, 4), r"lacks model\.layers\.1\..*experts\.0\.w1\.weight: 4 experts"),
    ((0, 1, 2), r"lacks model\.layers\.1\..*experts\.3\.w1\.weight: 4 experts"),
    ((0, 1, 2, 3, 4), r"holds model\.layers\.1\..*experts\.4\.w1\.weight, and 4 experts end at 3"),
])  # fmt: skip
def test_experts_with_other_numbers_are_refused_by_name(
    order: tuple[int, ...], message: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    """`transformers` stacks them in the order of their numbers, whatever these are."""

    def renumber(state: State) -> State:
        first = next(name for name in state if ".layers.1." in name and name.endswith("experts.0.w1.weight"))
        prefix = first.removesuffix("0.w1.weight")
        made = {name: one for name, one in state.items() if not name.startswith(prefix)}
        for old, new in enumerate(order):
            for part in ("w1", "w2", "w3"):
                made[f"{prefix}{new}.{part}.weight"] = state[f"{prefix}{old % 4}.{part}.weight"].clone()
        return made

    with pytest.raises(ModelLoadError, match=message):
        load_model(changed(tiny_folder("mixtral"), tmp_path, renumber))


@pytest.mark.parametrize("weights", ["full", "int8"])
@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.layers.2.mlp.down_proj.weight", "model.norm.weight"]
)
def test_weights_that_are_no_numbers_are_refused_by_name(
    name: str, bad: str, weights: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    def spoil(state: State) -> None:
        state[name].view(-1)[7] = float(bad)

    with pytest.raises(ModelLoadError, match=f"'{name}' holds numbers that are (NaN|infinite)"):
        load_model(changed(tiny_folder("llama"), tmp_path, lambda s: spoil(s)), weights=weights)  # type: ignore[arg-type]


def test_what_a_checkpoint_may_leave_out_or_add_is_not_refused(tmp_path: Path) -> None:
    """A tied head, with or without its own copy; tables that are computed; scales of other caches."""
    extra = {
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(8),
        "model.layers.0.self_attn.k_scale": torch.ones(1),
        "model.layers.1.self_attn.v_proj.output_scale": torch.ones(1),
    }
    tied = save_tiny(tmp_path, "llama", tie_word_embeddings=True)
    state = load_file(tied / "model.safetensors")
    assert "lm_head.weight" not in state
    expected = load_model(tied).module.get_output_embeddings().weight
    both = extra | {"lm_head.weight": state["model.embed_tokens.weight"].clone()}
    found = load_model(changed(tied, tmp_path, lambda s: s | both)).module.get_output_embeddings().weight
    assert torch.equal(found, expected)


def test_a_base_model_without_its_prefix_is_found(tmp_path: Path) -> None:
    """`save_pretrained` of a model without a head writes names without a prefix; tied, nothing is missing."""
    folder = save_tiny(tmp_path, "llama", tie_word_embeddings=True)
    load_model(changed(folder, tmp_path, lambda s: {name.removeprefix("model."): s[name] for name in s}))


def test_files_that_an_index_names_must_be_there(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, "llama")
    module = transformers.AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    module.save_pretrained(folder, max_shard_size="40KB")
    files = sorted(folder.glob("model-*.safetensors"))
    files[1].unlink()
    with pytest.raises(ModelLoadError, match=f"names 1 files that are not there: {files[1].name}"):
        load_model(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weights": {}}))
    with pytest.raises(ModelLoadError, match="has no weight_map"):
        load_model(folder)


def test_a_file_that_was_cut_off_is_refused(tiny_folder: Folder, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder("llama"), tmp_path / "cut"))
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ModelLoadError):
        load_model(folder)


@pytest.mark.parametrize("model_type", ["llama", "unheard_of"])
def test_code_that_lies_in_a_checkpoint_is_not_run(model_type: str, tiny_folder: Folder, tmp_path: Path) -> None:
    """Nor does anything ask on the terminal whether it may be."""
    folder = Path(shutil.copytree(tiny_folder("llama"), tmp_path / "own-code"))
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\nclass OwnConfig: ...\nclass Own: ...\n")
    told = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own", None]}
    for name in ("config.json", "tokenizer_config.json"):
        fields = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(fields | {"auto_map": told}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": model_type}))
    if model_type == "llama":
        load_model(folder)
    else:
        with pytest.raises(ModelLoadError, match="brings Python code of its own"):
            load_model(folder)
    assert not ran.exists()


@pytest.mark.parametrize("template", ["{% for", "{{ messages", "{% endif %}", "{% zork %}"])
def test_a_chat_template_that_cannot_be_parsed_is_refused_at_load(
    template: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    """Else each caller would be told that the template refused the messages."""
    folder = Path(shutil.copytree(tiny_folder("llama"), tmp_path / "folder"))
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelLoadError, match=r"line 1 of its chat template .* is no Jinja"):
        load_model(folder)
