"""Compute draft heads in one compiled call: all products of a guess, with nothing of torch between them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.attention.in_place import FASTMATH
from sluicegate.engine.cpu.kernels.machine import LANES, call_product
from sluicegate.engine.cpu.kernels.products_by_form import product_whole
from sluicegate.engine.cpu.kernels.rows import floats, integers, small_exp
from sluicegate.plugins.compiled.kernels import address_of, kernel

I64 = npt.NDArray[np.int64]


class Heads(Protocol):
    """The weights of `engine.checkpoints.draft_heads.DraftHeads`."""

    @property
    def weight(self) -> Tensor: ...
    @property
    def bias(self) -> Tensor: ...


class HeadProducts:
    """Computes `engine.checkpoints.draft_heads.DraftHeads.one` times the vocabulary matrix; for float32 on CPUs."""

    def __init__(self, weight: Tensor, bias: Tensor, embedding: Tensor, vocabulary: Tensor) -> None:
        """Pack the weights: `weight` [k, 2d, d], `bias` [k, d], `embedding` and `vocabulary` [V, d]; d is a multiple of
        LANES."""
        self._weight = weight.float().transpose(1, 2).contiguous()  # [k, d, 2d]
        self._bias, self._embedding, self._vocabulary = (x.float().contiguous() for x in (bias, embedding, vocabulary))
        self._kept = (self._weight, self._bias, self._embedding, self._vocabulary)

    def logits(self, heads: I64, states: Tensor, before: I64) -> Tensor:
        """Return logits [R, V] of heads [R] for states [R, d] and the tokens [R] before the places they guess."""
        states = states.float().contiguous()
        rows, width = states.shape
        out = torch.empty(rows, len(self._vocabulary))
        room = np.empty((rows + 1, 2 * width), np.float32)
        places = [tensor.data_ptr() for tensor in (*self._kept, states, out)]
        sizes = rows, width, out.shape[1]
        _run(*places, heads.ctypes.data, before.ctypes.data, room.ctypes.data, *sizes, address_of(product_whole))
        return out


def products_of(heads: Heads, embedding: Tensor, vocabulary: Tensor) -> HeadProducts | None:
    """Return the compiled products of `heads`, with `embedding` and `vocabulary` [V, d]; None where they would not
    fit."""
    if vocabulary.device.type != "cpu" or heads.bias.shape[1] % LANES:
        return None
    return HeadProducts(heads.weight.detach(), heads.bias.detach(), embedding, vocabulary)


@kernel(f"void({', '.join(['int64'] * 13)})")
def _run(  # type: ignore[no-untyped-def]
    weight, bias, embedding, vocabulary, states, out, heads, before, room, rows, width, vocab, product
):
    """Run the heads row by row, then the vocabulary once for all. Arguments are addresses of what the class says;
    `room` [rows + 1, 2d]: the last row is what a head reads."""
    both = room + 8 * width * rows
    for row in range(rows):
        head, state = integers(heads, rows)[row], floats(states + 4 * width * row, width)
        floats(both, width)[:] = state
        _even(floats(embedding + 4 * width * integers(before, rows)[row], width), floats(both + 4 * width, width))
        made = room + 4 * width * row
        mine, wide = weight + 8 * width * width * head, 2 * width
        call_product(product, (both, 0, 0, 0, 1, mine, 0, wide, 0, width, made, 0, 0))
        _bend(floats(made, width), floats(bias + 4 * width * head, width), state)
    call_product(product, (room, 4 * width, 0, 0, rows, vocabulary, 0, width, 0, vocab, out, 4 * vocab, 0))


HEAD_KERNELS = [_run, product_whole]


@kernel(fastmath=FASTMATH)
def _even(x, out):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for i in range(len(x)):
        total += x[i] * x[i]
    factor = np.float32(1) / np.sqrt(total / np.float32(len(x)) + np.float32(1e-12))
    for i in range(len(x)):
        out[i] = x[i] * factor


@kernel(fastmath=FASTMATH)
def _bend(inner, bias, state):  # type: ignore[no-untyped-def]
    """Replace `inner` by state + silu(inner + bias)."""
    one = np.float32(1)
    for i in range(len(inner)):
        x = inner[i] + bias[i]
        e = small_exp(-abs(x))
        inner[i] = state[i] + x * ((one if x >= 0 else e) / (one + e))
