"""Products with weights of each form, all called alike, by address: each is compiled once, and only if a model has it.

    product(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto)

computes columns [first, first + count) of `x @ w.T` for `rows` rows. `w`, `scales`: of the weight's first column;
`out`: where the first of these columns goes. `xs`, `ldxs`, `scales` mean nothing to weights in float32, bfloat16 and
float16.
"""

from __future__ import annotations

from functools import cache

from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS, BLOCK_PANEL, BLOCK_PRODUCTS
from sluicegate.engine.cpu.kernels.products import (
    BF16,
    F16,
    PANEL,
    WHOLE,
    number_bytes,
    product_alone_with,
    product_with,
)
from sluicegate.engine.cpu.kernels.small_products import EIGHT, GROUP8, multiply8
from sluicegate.plugins.compiled.kernels import Kernel, kernel

_SIGNATURE = f"void({', '.join(['int64'] * 13)})"


READ_AS_THEY_ARE = (WHOLE, BF16, F16)
"""Forms whose products take float32 activations; all others take rounded ones."""


@cache
def wide_product(form: int) -> Kernel:
    """Return the product with weights of a form of READ_AS_THEY_ARE."""
    size, multiply = number_bytes(form), product_with(form)

    @kernel(_SIGNATURE, name="wide_product", made_by=(form,))
    def product(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
        multiply(x, ldx, rows, w + size * k * first, size * k, k, count, out, ldo, onto)

    made: Kernel = product
    return made


@cache
def wide_product_alone(form: int) -> Kernel:
    """Return the same for one row and few columns; see `product_alone_with`."""
    size, multiply = number_bytes(form), product_alone_with(form)

    @kernel(_SIGNATURE, name="wide_product_alone", made_by=(form,))
    def product(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
        multiply(x, w + size * k * first, size * k, k, count, out)

    made: Kernel = product
    return made


@kernel(_SIGNATURE)
def product_eight(x, ldx, xs, ldxs, rows, w, scales, k, first, count, out, ldo, onto):  # type: ignore[no-untyped-def]
    multiply8(x, ldx, xs, ldxs, rows, w + k * first, k, scales + 4 * first, k, count, out, ldo, onto)


product_whole = wide_product(WHOLE)
_ROUNDED = {EIGHT: product_eight, **BLOCK_PRODUCTS}
PRODUCTS = {**{form: wide_product(form) for form in READ_AS_THEY_ARE}, **_ROUNDED}
"""Product kernels by form of the weight."""
ALONE = {**{form: wide_product_alone(form) for form in READ_AS_THEY_ARE}, **_ROUNDED}
"""Product kernels for one row and few columns, after which columns far away may follow."""
WIDEST_PANEL = max(PANEL, BLOCK_PANEL)


def activation_group(form: int) -> int:
    """Return how many inputs share a scale of the activations that a weight of this form reads rounded."""
    return BLOCK_FORMS[form].group if form in BLOCK_FORMS else GROUP8


def panel_of(form: int) -> int:
    """Return the columns by which products with a weight of this form are shared among threads."""
    return BLOCK_PANEL if form in BLOCK_FORMS else PANEL
