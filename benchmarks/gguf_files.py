"""Random GGUF files of the Llama family, in blocks as the usual files have them: for memory and speed, not for answers.

python -m benchmarks.gguf_files --shape 1b --kinds q4_k_m FILE
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class GgufShape(NamedTuple):
    wide: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    tied: bool


SHAPES = {
    "300m": GgufShape(1024, 4096, 16, 16, 4, 16_000, False),
    "1b": GgufShape(2048, 8192, 16, 32, 8, 128_256, True),
    "1b-8": GgufShape(2048, 8192, 8, 32, 8, 128_256, True),
}
"""Sizes by name; `1b` is that of Llama-3.2-1B, `1b-8` has half of its layers."""
KINDS: Mapping[str, Mapping[str, str]] = {
    "f32": {"": "F32"},
    "q8_0": {"": "Q8_0"},
    "q4_0": {"": "Q4_0"},
    "q4_0_m": {"token_embd": "Q6_K", "output.": "Q6_K", "": "Q4_0"},
    "q4_k_m": {"token_embd": "Q6_K", "output.": "Q6_K", "attn_v": "Q6_K", "ffn_down": "Q6_K", "": "Q4_K"},
}
"""By parts of names, the first that fits; `q4_k_m` has more matrices in Q6_K than llama.cpp's own mixture. `q4_0_m` is
what llama.cpp makes of a model under the name Q4_0."""
_BLOCKS = {
    "Q8_0": (32, 34, {0: 2.7e-4}),
    "Q4_0": (32, 18, {0: 4.3e-3}),
    "Q4_K": (256, 144, {0: 1e-4, 2: 7.5e-4}),
    "Q6_K": (256, 210, {208: 1.5e-5}),
}
"""Numbers of a block, its bytes, and where its float16 scales lie, with a size that makes weights of some .02."""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file", type=Path)
    asked.add_argument("--shape", choices=SHAPES, default="300m")
    asked.add_argument("--kinds", choices=KINDS, default="q8_0")
    found = asked.parse_args()
    print(write_random(found.file, found.shape, found.kinds))


def write_random(file: Path, shape_name: str, kinds_name: str) -> Path:
    """Write a file, where there is none yet."""
    if file.exists():
        return file
    from gguf import GGMLQuantizationType, GGUFWriter

    file.parent.mkdir(parents=True, exist_ok=True)
    shape, kinds = SHAPES[shape_name], KINDS[kinds_name]
    made = GGUFWriter(file.with_suffix(".part"), "llama")
    _describe(made, shape)
    random = np.random.default_rng(0)
    for name, (rows, columns) in _matrices(shape):
        kind = next(kind for part, kind in kinds.items() if name.startswith(part) or f".{part}" in name)
        blocks = random_blocks(kind, rows, columns, random)
        made.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType[kind])
    norms = [f"blk.{at}.{name}_norm.weight" for at in range(shape.layers) for name in ("attn", "ffn")]
    for name in [*norms, "output_norm.weight"]:
        made.add_tensor(name, np.ones(shape.wide, np.float32))
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()
    return file.with_suffix(".part").rename(file)


def random_blocks(kind: str, rows: int, columns: int, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Return rows of blocks with random numbers, as bytes."""
    if kind == "F32":
        return (random.standard_normal((rows, columns), np.float32) * np.float32(0.02)).view(np.uint8)
    each, size, scales = _BLOCKS[kind]
    made = random.integers(0, 256, (rows * columns // each, size), dtype=np.uint8)
    for at, unit in scales.items():
        made[:, at : at + 2] = np.full((len(made), 1), unit, np.float16).view(np.uint8)
    return made.reshape(rows, -1)


def _describe(made: Any, shape: GgufShape) -> None:
    made.add_context_length(4096)
    made.add_embedding_length(shape.wide)
    made.add_block_count(shape.layers)
    made.add_feed_forward_length(shape.inner)
    made.add_head_count(shape.heads)
    made.add_head_count_kv(shape.kv_heads)
    made.add_rope_dimension_count(shape.wide // shape.heads)
    made.add_layer_norm_rms_eps(1e-5)
    made.add_rope_freq_base(10000.0)
    made.add_vocab_size(shape.vocab)
    made.add_tokenizer_model("gpt2")
    made.add_tokenizer_pre("qwen2")
    made.add_token_list(["w", "0", *(f"w{index}" for index in range(shape.vocab - 2))])
    made.add_token_merges(["w 0"])
    made.add_eos_token_id(2)


def _matrices(shape: GgufShape) -> Iterator[tuple[str, tuple[int, int]]]:
    wide, inner, narrow = shape.wide, shape.inner, shape.wide // shape.heads * shape.kv_heads
    yield "token_embd.weight", (shape.vocab, wide)
    small = {
        "attn_q": (wide, wide), "attn_k": (narrow, wide), "attn_v": (narrow, wide), "attn_output": (wide, wide),
        "ffn_gate": (inner, wide), "ffn_up": (inner, wide), "ffn_down": (wide, inner),
    }  # fmt: skip
    for at in range(shape.layers):
        for name, sizes in small.items():
            yield f"blk.{at}.{name}.weight", sizes
    if not shape.tied:
        yield "output.weight", (shape.vocab, wide)


if __name__ == "__main__":
    main()
