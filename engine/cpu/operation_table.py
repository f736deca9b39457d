"""Name the columns of the table of operations, and the places in the numbers of a step."""

from __future__ import annotations

from enum import IntEnum, auto


class Cell(IntEnum):
    """Places in the numbers of a step, all int64."""

    RUN = 0
    """Which step this is; 0 = the helpers go home."""
    TOKENS = auto()
    SAMPLED = auto()
    """Rows whose logits are wanted."""
    TASKS = auto()
    """Groups of up to ROWS queries, each of one sequence."""
    IDS = auto()
    POSITIONS = auto()
    SLOTS = auto()
    WANTED = auto()
    TASK_LIST = auto()
    """Address of int64 [TASKS, 4]: first token, tokens, first position, address of the block table."""
    COSINES = auto()
    SINES = auto()
    LOGITS = auto()
    SCRATCH = auto()
    SCRATCH_BYTES = auto()
    SPANS = auto()
    """Runs of tokens with an adapter."""
    SPAN_LIST = auto()
    """Address of int64 [SPANS, 3], see `engine.cpu.kernels.lowrank.span_rows`."""
    LIFT = auto()
    """Address of the code that adds adapters' products; 0 = no adapter was ever there."""
    TOLD = auto()
    """Address of what is told about the rows of logits while the step runs, see `engine.cpu.wanted_logits`; 0 =
    nothing."""
    WHOLE_ROWS = auto()
    """Rows all of whose logits are computed; they come first in the order."""
    ORDER = auto()
    """Address of int64 [SAMPLED]: in which order rows are taken for their logits."""
    MASKS = auto()
    """Address of int64 [SAMPLED]: addresses of masks, in that order; those of whole rows mean nothing."""


class Op(IntEnum):
    EMBED = 0
    NORM = auto()
    LINEAR = auto()
    GATED = auto()
    PLACE = auto()
    ATTEND = auto()
    SHRINK = auto()
    """Activations to int8, for products with small weights."""
    LOWER = auto()
    """What adapters make of the activations that N layers read."""
    ORDER = auto()
    """Which rows need all of their logits."""
    HEAD = auto()
    """The product with the vocabulary."""
    EMBED_BLOCKS = auto()
    """EMBED from a table in blocks."""
    EMBED_HALVES = auto()
    """EMBED from a table in bfloat16 or float16."""
    SEVERAL = auto()
    """Products of several runs of rows, each with a weight of its own: for code outside of the compiled pass."""


class Column(IntEnum):
    """Columns of the table. What an operation does not use is 0; addresses are of float32 unless said otherwise."""

    OP = 0
    WAITS = auto()
    COUNT = auto()
    """The place in the state that says how many rows there are."""
    X = auto()
    LDX = auto()
    OUT = auto()
    LDO = auto()
    K = auto()
    N = auto()
    W = auto()
    """Of SEVERAL the address of int64 [products, 4]: first row, rows, weight, its scales."""
    BIAS = auto()
    ONTO = auto()
    W2 = auto()
    KIND = auto()
    PICKED = auto()
    """1 = read the rows that are sampled, in their order."""
    HEADS = auto()
    KV_HEADS = auto()
    KEYS = auto()
    VALUES = auto()
    KEY_SCALES = auto()
    VALUE_SCALES = auto()
    FORM = auto()
    """How the KV pool keeps a number: FLOATS, INT8 or FP8 of `engine.cpu.kernels.rows`."""
    WINDOW = auto()
    BLOCK_SIZE = auto()
    SMALL = auto()
    """Form of the weights: WHOLE, BF16, F16, EIGHT, FOUR or one of blocks; of SHRINK, the group."""
    SCALES = auto()
    SCALES2 = auto()
    XS = auto()
    """Scales of activations in int8."""
    LDXS = auto()
    LOW = auto()
    """What LOWER made for this product; 0 = no adapter changes it."""
    LDLOW = auto()
    FACTORS = auto()
    """Its row in an adapter's table."""
    CODE = auto()
    """Address of the operation's compiled code."""
    PRODUCT = auto()
    """Address of the product that its weights need, see `engine.cpu.kernels.products_by_form`."""
    ALONE = auto()
    """Address of the product for one row and few columns."""
    PANEL = auto()
    """Columns by which the product is shared among threads."""
    REAL = auto()
    """First of this operation's places in the table of reals."""


COLUMNS = len(Column)
