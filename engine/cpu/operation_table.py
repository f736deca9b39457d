"""Name the columns of the table of operations, and the places in the numbers of a step."""

from __future__ import annotations

from enum import IntEnum, auto


class Cell(IntEnum):
    """Places in the numbers of a step, all int64."""

    RUN = 0
    """Number of the current step; 0 = the helper threads stop."""
    TOKENS = auto()
    SAMPLED = auto()
    """Number of rows whose logits are wanted."""
    TASKS = auto()
    """Number of groups of up to ROWS queries, each of one sequence."""
    IDS = auto()
    POSITIONS = auto()
    SLOTS = auto()
    WANTED = auto()
    TASK_LIST = auto()
    """Address of int64 [TASKS, 4]: first token, tokens, first position, address of the block table."""
    COSINES = auto()
    SINES = auto()
    LOCAL_COSINES = auto()
    """Those of sliding layers, where they have others."""
    LOCAL_SINES = auto()
    LOGITS = auto()
    SCRATCH = auto()
    SCRATCH_BYTES = auto()
    SPANS = auto()
    """Number of runs of tokens that use an adapter."""
    SPAN_LIST = auto()
    """Address of int64 [SPANS, 3], see `engine.cpu.kernels.lowrank.span_rows`."""
    LIFT = auto()
    """Address of the code that adds adapters' products; 0 = no adapter was ever loaded."""
    TOLD = auto()
    """Address of the marks on the rows of logits, which may change while the step runs (see
    `engine.cpu.wanted_logits`); 0 = none."""
    WHOLE_ROWS = auto()
    """Number of rows whose logits are all computed; they come first in the order."""
    ORDER = auto()
    """Address of int64 [SAMPLED]: the order in which rows get their logits."""
    MASKS = auto()
    """Address of int64 [SAMPLED]: addresses of masks, in that order; those of whole rows are ignored."""


class Op(IntEnum):
    EMBED = 0
    NORM = auto()
    LINEAR = auto()
    GATED = auto()
    PLACE = auto()
    ATTEND = auto()
    SHRINK = auto()
    """Rounds activations to int8, for products with small weights."""
    LOWER = auto()
    """Computes the adapters' low-rank projection of the activations that N layers read."""
    ORDER = auto()
    """Decides which rows need all of their logits."""
    HEAD = auto()
    """The product with the vocabulary matrix."""
    EMBED_BLOCKS = auto()
    """EMBED from a table stored in blocks."""
    EMBED_HALVES = auto()
    """EMBED from a table in bfloat16 or float16."""
    SEVERAL = auto()
    """Products of several runs of rows, each with its own weight: for code outside the compiled pass."""
    PROBE = auto()
    """Products of N vectors with a state of root mean square 1, stored at the token's slot."""


class Column(IntEnum):
    """Columns of the table. What an operation does not use is 0; addresses are of float32 unless said otherwise."""

    OP = 0
    WAITS = auto()
    COUNT = auto()
    """Place in the state that holds the number of rows."""
    X = auto()
    LDX = auto()
    OUT = auto()
    LDO = auto()
    K = auto()
    N = auto()
    W = auto()
    """Address of the weight. For SEVERAL, address of int64 [products, 4]: first row, rows, weight, its scales."""
    BIAS = auto()
    ONTO = auto()
    """1 = add to what stands in OUT. NORM then leaves what it adds in X."""
    W2 = auto()
    PICKED = auto()
    """1 = read only the sampled rows, in their order."""
    HEADS = auto()
    KV_HEADS = auto()
    KEYS = auto()
    VALUES = auto()
    KEY_SCALES = auto()
    VALUE_SCALES = auto()
    FORM = auto()
    """Number format of the KV pool: FLOATS, INT8 or FP8 of `engine.cpu.kernels.rows`."""
    WINDOW = auto()
    BLOCK_SIZE = auto()
    ACTIVATION = auto()
    """Of GATED: SILU or GELU of `engine.cpu.kernels.rows`."""
    TURNS = auto()
    """Place in the state that holds the address of the cosines; that of the sines is next."""
    SMALL = auto()
    """Form of the weights: WHOLE, BF16, F16, EIGHT or one of blocks. For SHRINK, the group size."""
    SCALES = auto()
    SCALES2 = auto()
    XS = auto()
    """Address of the scales of int8 activations."""
    LDXS = auto()
    LOW = auto()
    """Address of what LOWER computed for this product; 0 = no adapter changes it."""
    LDLOW = auto()
    FACTORS = auto()
    """This product's row in an adapter's table."""
    CODE = auto()
    """Address of the operation's compiled code."""
    PRODUCT = auto()
    """Address of the product kernel for the form of the weights, see `engine.cpu.kernels.products_by_form`."""
    ALONE = auto()
    """Address of the product kernel for one row and few columns."""
    PANEL = auto()
    """Columns per unit of work when the product is divided among threads."""
    REAL = auto()
    """First of this operation's places in the table of real numbers."""


COLUMNS = len(Column)
