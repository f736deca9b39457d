"""Round weights to 4 and 6 bits in two forms of GGUF's blocks, whose products are the fastest for their bytes:

Q4_0   a float16 scale for 32 inputs
Q6_K   a scale for 16 inputs: 8 bits times a float16 that 256 inputs share
"""

from __future__ import annotations

import torch
from torch import Tensor

from sluicegate.engine.cpu.block_packing import BlockNumbers
from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS
from sluicegate.engine.cpu.kernels.small_products import Q4_0, Q6_K, padded

_STEPS = {Q4_0: (1.08, 1.0, 0.92, 0.84), Q6_K: (1.06, 1.04, 1.02, 1.0, 0.98, 0.96)}
"""First steps that are tried for a group, in units of its largest weight over the form's offset."""
_LARGEST = 65504.0


def fits_six(k: int) -> bool:
    """Return whether weights of `k` inputs can be rounded to Q6_K."""
    return k > 0 and k % BLOCK_FORMS[Q6_K].run == 0


def round_four(weight: Tensor) -> BlockNumbers:
    """Round `weight` [n, k] float32 to Q4_0; numbers below 3e-8, half of float16's least step, may become 0."""
    k = weight.shape[1]
    groups = torch.nn.functional.pad(weight, (0, padded(k) - k)).unflatten(1, (-1, BLOCK_FORMS[Q4_0].group))
    units = _best_steps(groups, Q4_0).clamp(-_LARGEST, _LARGEST).half()
    return BlockNumbers(_codes(groups, units.float(), Q4_0), units[..., None].view(torch.uint8))


def numbers_of_four(codes: Tensor, scales: Tensor) -> BlockNumbers:
    """Return numbers in Q4_0 that are rounded already: (`codes` - 8) * scale, codes uint8 [n, k] below 16, `scales`
    float16 [n, k / 32]."""
    more = padded(codes.shape[1]) - codes.shape[1]
    units = torch.nn.functional.pad(scales, (0, more // BLOCK_FORMS[Q4_0].group))
    whole = torch.nn.functional.pad(codes, (0, more), value=BLOCK_FORMS[Q4_0].offset)
    return BlockNumbers(whole, units[..., None].contiguous().view(torch.uint8))


def round_six(weight: Tensor) -> BlockNumbers:
    """Round `weight` [n, k] float32 to Q6_K; `fits_six(k)`. Numbers below 3e-8 may become 0."""
    kind = BLOCK_FORMS[Q6_K]
    groups = weight.unflatten(1, (-1, kind.run // kind.group, kind.group))  # [n, runs, groups, 16]
    wanted = _best_steps(groups, Q6_K)
    units = _shared_units(wanted)
    scales = _divided(wanted, units.float()[..., None]).round_().clamp_(-128, 127)
    codes = _codes(groups, units.float()[..., None] * scales, Q6_K)
    return BlockNumbers(
        codes, torch.cat([units[..., None].view(torch.uint8), scales.to(torch.int8).view(torch.uint8)], -1)
    )


ROUNDED = {Q4_0: round_four, Q6_K: round_six}
"""Forms to which weights can be rounded."""


def _best_steps(groups: Tensor, form: int) -> Tensor:
    """Return the step of each group [...] with the least squared error of those tried. After numbers are rounded with a
    first step, the best step for these numbers follows by least squares."""
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True)).squeeze(-1)
    least, best = torch.full_like(largest, torch.inf), torch.zeros_like(largest)
    for step in _STEPS[form]:
        numbers = _rounded(groups, largest * (step / -BLOCK_FORMS[form].offset), form)
        found = _divided((groups * numbers).sum(-1), numbers.square().sum(-1))
        error = (groups - numbers.mul_(found[..., None])).square_().sum(-1)
        better = error < least
        least, best = torch.where(better, error, least), torch.where(better, found, best)
    return best


def _shared_units(steps: Tensor) -> Tensor:
    """Return the float16 unit of each run [n, runs] of `steps` [n, runs, groups]: its largest step by -128, never
    nearer to 0 than that, so that no scale exceeds 8 bits."""
    wanted = steps.gather(-1, steps.abs().argmax(-1, keepdim=True)).squeeze(-1) / -128
    near = wanted.clamp(-_LARGEST, _LARGEST).half()
    further = (near.view(torch.int16) + 1).view(torch.float16)
    return torch.where(near.float().abs() < wanted.abs().clamp_max(_LARGEST), further, near)


def _codes(groups: Tensor, steps: Tensor, form: int) -> Tensor:
    """Return codes uint8 [n, k] of `groups` in their `steps`."""
    return _rounded(groups, steps, form).add_(BLOCK_FORMS[form].offset).to(torch.uint8).flatten(1)


def _rounded(groups: Tensor, steps: Tensor, form: int) -> Tensor:
    """Return the numbers of the form that are nearest to the `groups` [..., inputs] in `steps` [...]."""
    most = BLOCK_FORMS[form].offset
    return _divided(groups, steps[..., None]).round_().clamp_(-most, most - 1)


def _divided(numbers: Tensor, by: Tensor) -> Tensor:
    """Divide; by 0 everything is 0."""
    return torch.where(by == 0, 0.0, numbers / by)
