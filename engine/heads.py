"""Small heads on a model's last hidden state that guess the tokens after the next one (Cai et al., "Medusa", 2024).

Head j looks at the state from which a token was drawn and guesses the j-th token after that one. A head is a residual
layer before the model's own vocabulary matrix, so it costs a product of two small matrices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plugins import ModelLoadError

FILE = "heads.safetensors"


class DraftHeads(nn.Module):
    """`weight` [k, d, d] and `bias` [k, d]; both zero = every head says what the model says of the next token."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count, width, width))
        self.bias = nn.Parameter(torch.zeros(count, width))

    @property
    def count(self) -> int:
        return len(self.weight)

    def forward(self, states: Tensor) -> Tensor:
        """[R, d] -> [R, k, d], to be multiplied with the vocabulary matrix."""
        inner = torch.einsum("rd,kde->rke", states, self.weight) + self.bias
        return states.unsqueeze(1) + torch.nn.functional.silu(inner)

    def save(self, folder: Path) -> None:
        """In half precision: guesses need no more."""
        from safetensors.torch import save_file

        save_file({name: tensor.half() for name, tensor in self.state_dict().items()}, folder / FILE)


def load_heads(folder: Path, module: Any) -> DraftHeads | None:
    """The heads beside a checkpoint, if there are any. Raises `ModelLoadError` if they are another model's."""
    from safetensors.torch import load_file

    if not (folder / FILE).exists():
        return None
    tensors = load_file(folder / FILE)
    vocabulary = module.get_output_embeddings().weight
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    width = vocabulary.shape[1]
    if set(shapes) != {"weight", "bias"} or shapes["weight"][1:] != (width, width) or shapes["bias"][1:] != (width,):
        raise ModelLoadError(f"{folder / FILE} holds {shapes}; expected weight [k, d, d] and bias [k, d], d = {width}")
    heads = DraftHeads(len(tensors["weight"]), width)
    heads.load_state_dict(tensors)
    return heads.to(vocabulary.device).eval().requires_grad_(False)
