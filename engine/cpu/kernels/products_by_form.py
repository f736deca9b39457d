"""Products with weights of each form, all called alike, by address: each is compiled once, and only if a model has it.

    product(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto)

computes columns [first, first + count) of `x @ w.T` for `rows` rows; of a weight of 4 bits `first` begins a panel. `w`,
`scales`: of the weight's first column; `out`: where the first of these columns goes. `xs`, `ldxs`, `scales` mean
nothing to whole weights.
"""

from __future__ import annotations

from sluicegate.engine.cpu.kernels.panel_products import multiply4
from sluicegate.engine.cpu.kernels.products import multiply, multiply_alone
from sluicegate.engine.cpu.kernels.small_products import EIGHT, FOUR, GROUP4, WHOLE, multiply8
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
    """As `product_whole` for one row and few columns; see `multiply_alone`."""
    multiply_alone(x, w + 4 * k * first, 4 * k, k, count, out)


PRODUCTS = {WHOLE: product_whole, EIGHT: product_eight, FOUR: product_four}
"""By form of the weight."""
ALONE = {WHOLE: product_alone, EIGHT: product_eight, FOUR: product_four}
"""Those for one row and few columns, after which others far away may follow."""
