"""Read draft heads: small heads on a model's last hidden state that guess the tokens after the next one.

Head j reads the state from which a token was drawn, and the token before the place it guesses: the j-th after the one
that was drawn. So a later head knows what an earlier one guessed, or what the grammar forced (Cai et al., "Medusa",
2024; Ankner et al., "Hydra", 2024). A head is a residual layer before the model's own vocabulary matrix.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sluicegate.engine.checkpoints.fitting import refuse_no_numbers
from sluicegate.engine.checkpoints.plausible import refuse_codes
from sluicegate.engine.checkpoints.stored_tensors import stored_tensors
from sluicegate.plugins import ModelLoadError

FILE = "heads.safetensors"


class DraftHeads(nn.Module):
    """`weight` [k, 2d, d] and `bias` [k, d] of k heads; with both zero every head predicts the model's own next
    token."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count, 2 * width, width))
        self.bias = nn.Parameter(torch.zeros(count, width))

    @property
    def count(self) -> int:
        return len(self.weight)

    @property
    def width(self) -> int:
        return self.bias.shape[1]

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        """Return [R, k, d], to be multiplied with the vocabulary matrix, for states [R, d] and the embeddings [R, k, d]
        of the tokens before the places that are guessed."""
        both = torch.cat([states.unsqueeze(1).expand_as(before), even(before)], -1)
        inner = torch.einsum("rke,ked->rkd", both, self.weight) + self.bias
        return states.unsqueeze(1) + torch.nn.functional.silu(inner)

    def one(self, index: Tensor, states: Tensor, before: Tensor) -> Tensor:
        """Compute one head per row: heads `index` [R], states [R, d] and embeddings [R, d] give [R, d]."""
        both = torch.cat([states, even(before)], -1)
        inner = torch.einsum("re,red->rd", both, self.weight[index]) + self.bias[index]
        return states + torch.nn.functional.silu(inner)

    def save(self, folder: Path) -> None:
        """Write the heads in half precision, which is enough for drafts."""
        from safetensors.torch import save_file

        save_file({name: tensor.half() for name, tensor in self.state_dict().items()}, folder / FILE)


def even(embeddings: Tensor) -> Tensor:
    """Scale each of `embeddings` [..., d] to length sqrt(d), as hidden states have, whatever the scale of the table."""
    return embeddings * embeddings.square().mean(-1, keepdim=True).add(1e-12).rsqrt()


def load_heads(folder: Path, module: Any) -> DraftHeads | None:
    """Return the heads stored beside a checkpoint, or None. Raises `ModelLoadError` if they belong to another model."""
    return read_heads(folder / FILE, module) if (folder / FILE).exists() else None


def read_heads(path: Path, module: Any) -> DraftHeads:
    """Read heads for `module` from a file, or from the folder that holds one. Raises `ModelLoadError`."""
    path = path / FILE if path.is_dir() else path
    try:
        tensors = {name: one.read() for name, one in stored_tensors([path], str(path)).items()}
    except Exception as error:
        raise ModelLoadError(
            f"no draft heads could be read from {str(path)!r} ({type(error).__name__}: {error}); "
            "`python -m training.heads` writes such a file, or leave out `heads`"
        ) from error
    vocabulary = module.get_output_embeddings().weight
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    width = vocabulary.shape[1]
    if (
        set(shapes) != {"weight", "bias"}
        or shapes["weight"][1:] != (2 * width, width)
        or shapes["bias"] != (shapes["weight"][0], width)
        or not len(tensors["weight"])
    ):
        raise ModelLoadError(f"{path} holds {shapes}; expected weight [k, 2d, d] and bias [k, d], k >= 1, d = {width}")
    refuse_codes(tensors, str(path))
    for name, tensor in tensors.items():
        refuse_no_numbers(name, tensor, str(path))
    heads = DraftHeads(len(tensors["weight"]), width)
    heads.load_state_dict(tensors)
    return heads.to(vocabulary.device).eval().requires_grad_(False)
