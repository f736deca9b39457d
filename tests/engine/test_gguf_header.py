"""The header of a GGUF file is read whole and in bounds, or refused by what is wrong with it and where."""

from __future__ import annotations

import random
import re
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate.engine import load_model
from sluicegate.engine.checkpoints.gguf.header import read_header
from sluicegate.plugins import ModelLoadError
from tests.engine.gguf_bytes import ALIGNMENT, INT32, LIST, TEXT, UINT32, GgufParts
from tests.engine.gguf_files import write_gguf
from tests.engine.tiny_models import save_tiny

EMBEDDING = b"token_embd.weight"
TOKENS = b"tokenizer.ggml.tokens"
AT_BYTE = re.compile(r"\(byte \d+\)\. It is damaged, or was not wholly fetched; fetch it anew$")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    return write_gguf(save_tiny(folder, "llama", hidden_size=64, head_dim=None), folder / "m.gguf")


@pytest.fixture(scope="module")
def parts(file: Path) -> GgufParts:
    return GgufParts.of(file)


def refusal(path: Path) -> str:
    with pytest.raises(ModelLoadError) as refused:
        read_header(path, "m.gguf")
    return str(refused.value)


def written(whole: bytes | bytearray, path: Path) -> Path:
    path.write_bytes(whole)
    return path


def test_a_whole_file_passes_whatever_its_alignment(file: Path, parts: GgufParts, tmp_path: Path) -> None:
    read_header(file, "m.gguf")
    read_header(parts.saying("general.alignment", UINT32, 8).write(tmp_path / "m.gguf"), "m.gguf")


def test_a_file_that_ends_anywhere_is_refused_with_what_it_ends_in(file: Path, tmp_path: Path) -> None:
    """At, before and behind the beginning of each number and text of the header; and within the tensors."""
    whole = file.read_bytes()
    borders = GgufParts.borders(file)
    some = [*borders[:40], *borders[40:-60:17], *borders[-60:]]
    for end in sorted({at + by for at in some for by in (-1, 0, 1) if at + by > 0}):
        message = refusal(written(whole[:end], tmp_path / "m.gguf"))
        assert AT_BYTE.search(message) or end < 4, message
    message = refusal(written(whole[:-ALIGNMENT], tmp_path / "m.gguf"))
    assert f"would end at byte {len(whole)} of a file of {len(whole) - ALIGNMENT}" in message


def test_a_cut_names_the_field_and_the_tensor(file: Path, tmp_path: Path) -> None:
    """With counts of one tensor and four fields, which what is left could hold."""
    whole = file.read_bytes()
    inside = whole.index(b"llama.embedding_length") + len(b"llama.embedding_length") + 4 + 2
    head = whole[:8] + struct.pack("<QQ", 1, 4)
    message = refusal(written(head + whole[24:inside], tmp_path / "m.gguf"))
    assert (
        f"it ends at byte {inside}, inside the value of field 'llama.embedding_length' (byte {inside - 2})" in message
    )
    inside = whole.index(EMBEDDING) + len(EMBEDDING) + 4 + 12
    assert f"inside a size of tensor {EMBEDDING.decode()!r}" in refusal(written(whole[:inside], tmp_path / "m.gguf"))


HEADS: dict[str, tuple[int, bytes, str]] = {
    "no GGUF": (0, b"PK\3\4", r"begins with b'PK\\x03\\x04', and these with b'GGUF'\. Name a GGUF file, or a folder"),
    "version 1": (4, struct.pack("<I", 1), r"of version 1; read are 2 and 3\. Convert the checkpoint anew"),
    "version 4": (4, struct.pack("<I", 4), r"of version 4; read are 2 and 3"),
    "big-endian": (4, struct.pack(">I", 3), r"of the other byte order \(big-endian\); convert it with gguf-convert"),
    "no tensors": (8, struct.pack("<Q", 0), r"holds no tensors: a vocabulary alone, or damaged"),
    "more tensors": (8, struct.pack("<Q", 2**62), r"it says that it has 4611686018427387904 tensors, which \d+ bytes"),
    "more fields": (16, struct.pack("<Q", 2**64 - 1), r"it says that it has 18446744073709551615 fields, which \d+"),
    "one field more": (16, b"", r"is of type|takes \d+ bytes|is there twice"),
}


@pytest.mark.parametrize("case", HEADS)
def test_what_no_file_begins_with_is_refused(case: str, file: Path, tmp_path: Path) -> None:
    at, odd, message = HEADS[case]
    whole = file.read_bytes()
    odd = odd or struct.pack("<Q", struct.unpack_from("<Q", whole, 16)[0] + 1)
    assert re.search(message, refusal(written(whole[:at] + odd + whole[at + len(odd) :], tmp_path / "m.gguf")))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert refusal(written(b"", tmp_path / "m.gguf")) == "'m.gguf' is empty, and no GGUF file; fetch it anew"


def behind(whole: bytes, mark: bytes, by: int, odd: bytes) -> bytes:
    at = whole.index(mark) + len(mark) + by
    return whole[:at] + odd + whole[at + len(odd) :]


LENGTHS: dict[str, tuple[bytes, int, bytes, str]] = {
    "a name": (TOKENS, -len(TOKENS) - 8, struct.pack("<Q", 2**63), r"the name of field \d+ of \d+ says that it takes"),
    "a long name": (TOKENS, -len(TOKENS) - 8, struct.pack("<Q", 70_000), r"takes 70000 bytes, and at most 65536 are"),
    "a text": (b"general.architecture", 4, struct.pack("<Q", 2**40), r"'general\.architecture' says that it takes 10"),
    "a list": (TOKENS, 8, struct.pack("<Q", 2**61), r"'tokenizer\.ggml\.tokens' says that it has 2305843009213693952"),
    "an item": (TOKENS, 16, struct.pack("<Q", 2**40), r"item 0 of field 'tokenizer\.ggml\.tokens' says that it takes"),
    "a type": (TOKENS, 0, struct.pack("<I", 13), r"field 'tokenizer\.ggml\.tokens' is of type 13; known are numbers"),
    "a type of items": (TOKENS, 4, struct.pack("<I", 99), r"an item of field 'tokenizer\.ggml\.tokens' is of type 99"),
    "lists in a list": (TOKENS, 4, struct.pack("<I", LIST), r"an item of field 'tokenizer\.ggml\.tokens' is of type 9"),
    "no UTF-8": (TOKENS, 24, b"\xff", r"item 0 of field 'tokenizer\.ggml\.tokens' is no UTF-8"),
    "a tensor's name": (EMBEDDING, -1, b"\xff", r"the name of tensor 1 of \d+ is no UTF-8"),
    "no sizes": (EMBEDDING, 0, struct.pack("<I", 0), r"'token_embd\.weight' has 0 sizes; expected 1 to 4"),
    "many sizes": (EMBEDDING, 0, struct.pack("<I", 2**32 - 1), r"has 4294967295 sizes; expected 1 to 4"),
    "a size of 0": (
        EMBEDDING,
        4,
        struct.pack("<Q", 0),
        r"'token_embd\.weight' has the sizes \[0, 266\]; expected none",
    ),
    "large sizes": (EMBEDDING, 4, struct.pack("<QQ", 2**63, 2**63), r"'token_embd\.weight' would end at byte 3402823"),
    "an unknown type": (
        EMBEDDING,
        20,
        struct.pack("<I", 4),
        r"is of type 4, which the installed package gguf does not",
    ),
    "no such blocks": (EMBEDDING, 20, struct.pack("<I", 12), r"has rows of 64 numbers; those of Q4_K come in 256"),
    "off alignment": (
        EMBEDDING,
        24,
        struct.pack("<Q", 4),
        r"'token_embd\.weight' lies at 4; expected a multiple of 32",
    ),
    "far away": (
        EMBEDDING,
        24,
        struct.pack("<Q", 2**64 - 32),
        r"'token_embd\.weight' would end at byte 18446744073709",
    ),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_wrong_lengths_types_and_places_are_refused_by_name(case: str, file: Path, tmp_path: Path) -> None:
    mark, by, odd, message = LENGTHS[case]
    found = refusal(written(behind(file.read_bytes(), mark, by, odd), tmp_path / "m.gguf"))
    assert re.search(message, found), found
    assert AT_BYTE.search(found), found


def test_a_type_that_cannot_be_widened_is_refused_with_others_that_can(file: Path, tmp_path: Path) -> None:
    whole = behind(file.read_bytes(), EMBEDDING, 20, struct.pack("<I", 15))
    message = refusal(written(whole, tmp_path / "m.gguf"))
    assert (
        "tensor 'token_embd.weight' is in Q8_K (type 15), which cannot be read here; name a file in another" in message
    )


@pytest.mark.parametrize(("kind", "value"), [(UINT32, 0), (UINT32, 48), (INT32, 32), (TEXT, b"32")])
def test_an_alignment_that_is_no_power_of_2_is_refused(kind: int, value: Any, parts: GgufParts, tmp_path: Path) -> None:
    changed = parts.saying("general.alignment", kind, value).write(tmp_path / "m.gguf")
    assert "general.alignment is" in (found := refusal(changed))
    assert "expected a power of 2 (type 4)" in found


def test_a_field_and_a_tensor_that_are_there_twice_are_refused(parts: GgufParts, file: Path, tmp_path: Path) -> None:
    other = b"blk.0.attn_k.weight", b"blk.0.attn_q.weight"
    message = refusal(written(file.read_bytes().replace(*other, 1), tmp_path / "m.gguf"))
    assert "tensor 'blk.0.attn_q.weight' is there twice" in message
    again = parts.fields[b"general.architecture"]
    more = replace(parts, fields={**parts.fields, b"general.architecturf": again}).write(tmp_path / "m.gguf")
    message = refusal(written(more.read_bytes().replace(b"architecturf", b"architecture"), tmp_path / "m.gguf"))
    assert "field 'general.architecture' is there twice" in message


def test_any_bytes_are_read_or_refused_in_little_memory(file: Path, tmp_path: Path) -> None:
    """Numbers of 32 and 64 bits anywhere, and bytes that are missing or too many: no error of another kind, and less
    memory than a few copies of the header take."""
    whole, drawn = file.read_bytes(), random.Random(0)
    end, borders = GgufParts.borders(file)[-1], GgufParts.borders(file)
    odd = [0, 1, 8, 9, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1]
    outcomes = {"read": 0, "refused": 0}
    read_header(file, "m.gguf")
    tracemalloc.start()
    for _ in range(1500):
        made, at = bytearray(whole), drawn.choice(borders) + drawn.choice([0, 0, 0, -1, 1, 4])
        at = min(max(at, 0), end)
        way = drawn.randrange(4)
        if way == 0:
            made[at : at + 8] = struct.pack("<Q", drawn.choice(odd))
        elif way == 1:
            made[at : at + 4] = struct.pack("<I", drawn.choice(odd) % 2**32)
        elif way == 2:
            del made[at : at + drawn.randrange(1, 40)]
        else:
            made[at:at] = drawn.randbytes(drawn.randrange(1, 40))
        try:
            read_header(written(made, tmp_path / "m.gguf"), "m.gguf")
            outcomes["read"] += 1
        except ModelLoadError:
            outcomes["refused"] += 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5 * len(whole) + (1 << 20)
    assert min(outcomes.values()) > 50


@pytest.mark.parametrize("kind", [0, 7])
def test_a_list_without_an_end_is_refused_before_a_library_reads_it(
    kind: int, parts: GgufParts, tmp_path: Path
) -> None:
    """The package `gguf` took memory until there was none: behind a file's end its reader goes on with nothing."""
    path = parts.saying("llama.a_list", LIST, (kind, [1, 2])).write(tmp_path / "m.gguf")
    whole = behind(path.read_bytes(), b"llama.a_list", 8, struct.pack("<Q", 2**60))
    with pytest.raises(ModelLoadError, match=r"field 'llama\.a_list' says that it has 1152921504606846976 items"):
        load_model(written(whole, path))
