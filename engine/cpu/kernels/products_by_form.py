"""Products with weights of each form, all called alike, by address: each is compiled once, and only if a model has it.

    product(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto)

computes columns [first, first + count) of `x @ w.T` for `rows` rows; of a weight of 4 bits `first` begins a panel. `w`,
`scales`: of the weight's first column; `out`: where the first of these columns goes. `xs`, `ldxs`, `scales` mean
nothing to whole weights.
"""

from __future__ import annotations

from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS, BLOCK_PANEL, BLOCK_PRODUCTS
from sluicegate.engine.cpu.kernels.panel_products import multiply4
from sluicegate.engine.cpu.kernels.products import PANEL, multiply, multiply_alone
from sluicegate.engine.cpu.kernels.small_products import EIGHT, FOUR, GROUP4, GROUP8, WHOLE, multiply8
from sluicegate.plugins.compiled.kernels import kernel

_SIGNATURE = f"void({', '.join(['int64'] * 13)})"


@kernel(_SIGNATURE)
def product_whole(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
    multiply(x, ldx, rows, w + 4 * k * first, 4 * k, k, count, out, ldo, onto)


@kernel(_SIGNATURE)
def product_eight(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
    multiply8(x, ldx, xs, ldxs, rows, w + k * first, k, scales + 4 * first, k, count, out, ldo, onto)


@kernel(_SIGNATURE)
def product_four(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
    scales, w = scales + 4 * (k // GROUP4) * first, w + k // 2 * first
    multiply4(x, ldx, xs, ldxs, rows, w, scales, k, count, out, ldo, onto)


@kernel(_SIGNATURE)
def product_alone(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
    """Do as `product_whole` for one row and few columns; see `multiply_alone`."""
    multiply_alone(x, w + 4 * k * first, 4 * k, k, count, out)


PRODUCTS = {WHOLE: product_whole, EIGHT: product_eight, FOUR: product_four, **BLOCK_PRODUCTS}
"""By form of the weight."""
ALONE = {WHOLE: product_alone, EIGHT: product_eight, FOUR: product_four, **BLOCK_PRODUCTS}
"""Those for one row and few columns, after which others far away may follow."""
WIDEST_PANEL = max(PANEL, BLOCK_PANEL)


def activation_group(form: int) -> int:
    """Return how many inputs share a scale of the activations that a weight of this form, not a whole one, reads."""
    if form in BLOCK_FORMS:
        return BLOCK_FORMS[form].group
    return GROUP8 if form == EIGHT else GROUP4


def panel_of(form: int) -> int:
    """Return the columns by which products with a weight of this form are shared among threads."""
    return BLOCK_PANEL if form in BLOCK_FORMS else PANEL
