"""Record the hidden states of chosen layers during a forward pass, by hooks.

A state is the residual stream after a decoder layer (1 = after the first), scaled to root mean square 1, so that
kernels, the module's own code and captured graphs give the same numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch import Tensor, nn

EPSILON = 1e-6
"""Added to the mean square, as in the norms of the Llama family."""


def decoder_layers(module: Any) -> nn.ModuleList:
    """Return the list of decoder layers of a `transformers` module. Raises `ValueError` where none is found."""
    config = module.config.get_text_config(decoder=True)
    count = getattr(config, "num_hidden_layers", None)
    for part in module.base_model.modules():
        if isinstance(part, nn.ModuleList) and len(part) == count:
            return part
    raise ValueError(f"{type(module).__name__} keeps its {count} layers in no list, so their states cannot be read")


def evened(states: Tensor) -> Tensor:
    """Return `states` [..., d] as float32 with root mean square 1 in the last dimension."""
    whole = states.float()
    scaled: Tensor = whole * (whole.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    return scaled


class LayerStates:
    """Records states of `layers`: `rooms[i]` [.., d] float32 holds those of `layers[i]` for the last pass, in its first
    rows.

    Mutable; for one thread. The memory stays the same from pass to pass, as captured graphs need it.
    """

    def __init__(self, module: Any, layers: Seq[int], tokens: int, *, raw: bool = False) -> None:
        """Register hooks on the layers. `tokens`: most of one pass; a longer pass, as in measurements, allocates more
        memory. `raw`: store states unscaled."""
        self._raw = raw
        found = decoder_layers(module)
        width = module.config.get_text_config(decoder=True).hidden_size
        self.rooms = [torch.zeros(tokens, width, device=module.device) for _ in layers]
        for at, layer in enumerate(layers):
            hook = found[layer - 1].register_forward_hook(_noting(weakref.ref(self), at))
            weakref.finalize(self, hook.remove)

    def note(self, at: int, given: Any) -> None:
        hidden = given[0] if isinstance(given, tuple) else given  # [1, T, d]
        states = hidden.reshape(-1, hidden.shape[-1])
        states = states.float() if self._raw else evened(states)
        if len(states) > len(self.rooms[at]):
            self.rooms[at] = states.clone()
            return
        self.rooms[at][: len(states)].copy_(states)


def _noting(owner: weakref.ref[LayerStates], at: int) -> Any:
    def note(module: Any, given: Any, out: Any) -> None:
        if (alive := owner()) is not None:
            alive.note(at, out)

    return note
