"""Compile kernels for a GPU that need not be there, in a process without the interpreter: `python -m
tests.engine.cuda.compiling`. Prints one JSON object: variant -> facts about its machine code."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sluicegate.engine.cuda.kernels import attention as attention_kernels
from sluicegate.engine.cuda.kernels import draw, fused, mask, product, weight


def compiled(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], *, capability: int, warps: int, stages: int = 3
) -> dict[str, Any]:
    """Compile a kernel, and return what it takes. `types` are those of the arguments that are no constants. Pointers,
    strides and widths are taken for multiples of 16, as they are where tensors are whole."""
    even = {
        (at,): [["tt.divisibility", 16]]
        for at, (name, kind) in enumerate(types.items())
        if kind[0] == "*" or name in ("width", "columns") or "_stride" in name
    }
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants, even)
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    ptx = made.asm["ptx"]
    return _resources(made.asm["cubin"]) | {
        "bytes": len(made.asm["cubin"]),
        "shared": made.metadata.shared,
        "tensor_cores": bool(re.search(r"wgmma\.mma_async|mma\.sync", ptx)),
        "wide_async_copies": len(re.findall(r"cp\.async\.cg\.shared\.global .*0x10", ptx)),
    }


def _resources(cubin: bytes) -> dict[str, int]:
    """Read the registers of a thread, and the bytes of its stack, which is where registers that do not fit go."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        said = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found is not None, said
    return {"registers": int(found[1]), "spilled": int(found[2])}


def between(hidden: int, dtype: str = "bf16") -> dict[str, Any]:
    """Compile what lies between the products of a layer that is `hidden` wide, heads 128 wide."""
    of = f"*{dtype}"
    norm = {"x": of, "added": of, "weight": of, "out": of, "width": "i32", "epsilon": "fp32"}
    turn = {
        "qkv": of, "cosines": of, "sines": of, "query_norm": of, "key_norm": of, "slots": "*i64", "keys": of,
        "values": of, "key_scales": "*i64", "value_scales": "*i64", "heads": "i32", "kv_heads": "i32",
        "epsilon": "fp32",
    }  # fmt: skip
    eight = {"keys": "*fp8e4nv", "values": "*fp8e4nv", "key_scales": "*fp32", "value_scales": "*fp32"}
    head = {"DIM": 128, "WIDE": 64, "NORMED": True}
    gate = {"both": of, "out": of, "width": "i32"}
    wide, kernels = triton.next_power_of_2(hidden), fused
    many = min(16, wide // 512)
    return {
        f"norm {hidden} {dtype}": compiled(
            kernels.add_and_normalise, norm, {"WIDE": wide, "ADDS": True}, capability=90, warps=many
        ),
        f"turn {dtype}": compiled(kernels.turn_and_store, turn, head | {"LARGEST": 0.0}, capability=90, warps=1),
        f"turn {dtype}, fp8": compiled(
            kernels.turn_and_store, turn | eight, head | {"LARGEST": 448.0}, capability=90, warps=1
        ),
        f"gate {dtype}": compiled(kernels.gate_rows, gate, {"COLUMNS": 1024}, capability=90, warps=4),
    }


def attention(
    dtype: str, dim: int, group: int, tokens: int, *, stored: str = "", capability: int = 90
) -> dict[str, Any]:
    rows = max(16, triton.next_power_of_2(group * tokens))
    kept = stored or f"*{dtype}"
    types = {
        "query": f"*{dtype}", "keys": kept, "values": kept, "key_scales": "*fp32", "value_scales": "*fp32",
        "tables": "*i64", "tiles": "*i64", "out": f"*{dtype}", "sums": "*fp32", "norms": "*fp32",
        "query_head_stride": "i32", "query_token_stride": "i32", "heads": "i32", "kv_heads": "i32", "window": "i32",
        "scaling": "fp32", "softcap": "fp32",
    }  # fmt: skip
    constants = {
        "GROUP": group, "ROWS": rows, "KEYS": 128 if tokens == 1 else 64, "PAGE": 16, "DIM": dim, "WIDE": dim,
        "VALUE_DIM": dim, "VALUE_WIDE": dim, "SPLITS": 16 if tokens == 1 else 1, "SPAN": 128,
        "SMALL": bool(stored), "CAPPED": True, "WIDEN": False,
    }  # fmt: skip
    warps = 4 if rows * dim <= 64 * 128 else 8
    stages = 2 if tokens == 1 else 3
    return compiled(attention_kernels.attend_tiles, types, constants, capability=capability, warps=warps, stages=stages)


def storing(kept: str, largest: float) -> dict[str, Any]:
    types = {
        "new": "*bf16", "kept": kept, "scales": "*fp32", "slots": "*i64",
        "new_head_stride": "i32", "new_token_stride": "i32", "heads": "i32",
    }  # fmt: skip
    constants = {"DIM": 128, "WIDE": 128, "LARGEST": largest}
    return compiled(attention_kernels.store_tokens, types, constants, capability=90, warps=1)


def weights(data: str, *, group: int) -> dict[str, Any]:
    types = {
        "x": "*bf16", "data": data, "scales": "*fp32", "out": "*bf16",
        "rows": "i32", "columns": "i32", "width": "i32", "x_stride": "i32",
    }  # fmt: skip
    constants = {"ROWS": 16, "COLUMNS": 32, "STEP": 256, "WIDEN": False, "GROUP": group}
    return compiled(weight.multiply_small, types, constants, capability=90, warps=4, stages=4)


def few_rows(*, gated: bool) -> dict[str, Any]:
    types = {
        "x": "*bf16", "weight": "*bf16", "bias": "*bf16", "out": "*bf16",
        "rows": "i32", "columns": "i32", "width": "i32", "x_stride": "i32",
    }  # fmt: skip
    constants = {
        "ROWS": 16, "COLUMNS": 64, "STEP": 128, "STAGES": 4 if gated else 6, "GATED": gated, "BIASED": True,
        "WIDEN": False,
    }  # fmt: skip
    return compiled(product.multiply_few, types, constants, capability=90, warps=4)


def main() -> None:
    merging = {"tiles": "*i64", "out": "*bf16", "sums": "*fp32", "norms": "*fp32", "heads": "i32", "window": "i32"}
    sizes = {"KEYS": 64, "VALUE_DIM": 128, "VALUE_WIDE": 128, "SPLITS": 16, "SPAN": 128}
    drawing = {
        "logits": "*fp32", "best": "*fp32", "numbers": "*fp64", "out": "*fp64", "stride": "i32", "vocab": "i32",
    }  # fmt: skip
    masks = {"logits": "*fp32", "masks": "*i32", "logits_stride": "i32", "words": "i32", "vocab": "i32"}
    found = {
        "single token": attention("bf16", 128, 4, 1),
        "single token, capability 8.0": attention("bf16", 128, 4, 1, capability=80),
        "single token, int8": attention("bf16", 128, 4, 1, stored="*i8"),
        "single token, fp8": attention("bf16", 128, 4, 1, stored="*fp8e4nv"),
        "chunk, fp8": attention("bf16", 128, 4, 32, stored="*fp8e4nv"),
        "storing fp8": storing("*fp8e4nv", 448.0),
        "storing int8": storing("*i8", 127.0),
        "chunk": attention("bf16", 128, 4, 32),
        "int8 weights": weights("*i8", group=0),
        "fp8 weights": weights("*fp8e4nv", group=0),
        "int4 weights": weights("*u8", group=128),
        "draws": compiled(
            draw.draw_rows, drawing, {"COLUMNS": 4096, "NARROW": 512, "BEST": 1024}, capability=90, warps=32
        ),
        "few rows": few_rows(gated=False),
        "few rows, gated": few_rows(gated=True),
        "masks": compiled(mask.refuse_tokens, masks, {"COLUMNS": 1024}, capability=90, warps=4),
        "merge": compiled(attention_kernels.merge_splits, merging, sizes, capability=90, warps=4),
    }
    for made in (between(4096), between(8192), between(12288, "fp16")):
        found |= made
    print(json.dumps(found))


if __name__ == "__main__":
    main()
