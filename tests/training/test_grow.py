"""What a model that grows promises: the same answers, and new layers that training can move."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from training.grow import grown, main, new_layers

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"


def test_a_grown_model_answers_as_before_and_learns_in_its_new_layers(tmp_path: Path) -> None:
    main([str(BUNDLED), "--copied", "1", "3", "--out", str(tmp_path)])
    before, after = (AutoModelForCausalLM.from_pretrained(folder) for folder in (BUNDLED, tmp_path))
    assert len(after.model.layers) == len(before.model.layers) + 2
    ids = torch.randint(10, before.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(after(ids).logits, before(ids).logits)
    after(ids, labels=ids).loss.backward()
    for place in new_layers([1, 3]):
        layer = after.model.layers[place]
        assert float(layer.self_attn.o_proj.weight.grad.norm()) > 0
        assert float(layer.mlp.down_proj.weight.grad.norm()) > 0


def test_a_new_layer_stands_behind_the_one_it_copies() -> None:
    weights = load_file(BUNDLED / "model.safetensors")
    name = "model.layers.{}.mlp.up_proj.weight"
    after = grown(weights, [0, 2])
    assert new_layers([0, 2]) == [1, 4]
    order = [0, 0, 1, 2, 2, 3]
    assert all(torch.equal(after[name.format(i)], weights[name.format(old)]) for i, old in enumerate(order))
    assert not after["model.layers.4.mlp.down_proj.weight"].any()
