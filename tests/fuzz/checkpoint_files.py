"""Write one strange value, or a cut, into a file of a small checkpoint or adapter, and load and ask it.

    python -m tests.fuzz.checkpoint_files --minutes 10 [--only tokenizer.json]
    python -m tests.fuzz.checkpoint_files --case tokenizer.json:17

The outcome must be `answers` (three short ones that end) or `refused`: by a `ModelLoadError` without the name of a
library's error. A finding is anything else, also more memory or time than a child may take (`tests.fuzz.children`).
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from sluicegate.engine import load_model
from sluicegate.plugins import GenerationFailed, ModelLoadError
from tests.engine.driving import a_job, serving
from tests.engine.driving import run as answered
from tests.engine.gguf_bytes import FLOAT32, INT32, TEXT, UINT32, GgufParts
from tests.engine.gguf_files import write_gguf
from tests.engine.lora import TARGETS, write_adapter
from tests.engine.tiny_models import save_tiny
from tests.fuzz.cases import run, unexpected
from tests.fuzz.children import in_a_child, kept_folder

VALUES: tuple[Any, ...] = (
    *(0, -1, 7, 300, 2**31, 2**64, 2**70, 1.5, 1e300, float("nan"), True, None),
    *("no_such_thing", "", "\0", "x" * 100_000, [], [1], {}, {"no_such_field": 1}),
)
_LENGTHS = (0, 1, 8, 9, 2**31, 2**40, 2**62, 2**64 - 1)
_FOREIGN = re.compile(r"\(\w*(Error|Exception): ")


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    run(__doc__, case, list(FILES))


def case(name: str, seed: int) -> str:
    drawn = random.Random(f"{name} {seed}")
    made, path = _copied(name)
    try:
        change = FILES[name](path, drawn)
        return f"{in_a_child(lambda: _tried(made, name))} [{change}]"[:500]
    finally:
        shutil.rmtree(made)


@cache
def _origin() -> Path:
    folder = kept_folder("files")
    base = save_tiny(folder, "llama").rename(folder / "model")
    write_adapter(folder / "adapter", base, TARGETS["llama"])
    write_gguf(save_tiny(folder, "llama", seed=1, hidden_size=64), folder / "tiny.gguf")
    return folder


def _copied(name: str) -> tuple[Path, Path]:
    """Return a copy of all files, and the one to change."""
    made = Path(tempfile.mkdtemp(prefix="sluicegate-case-"))
    shutil.copytree(_origin(), made, dirs_exist_ok=True)
    place = {"tiny.gguf": made}.get(name, made / ("adapter" if name.startswith("adapter") else "model"))
    return made, place / name


def _strange_json(path: Path, drawn: random.Random) -> str:
    said = json.loads(path.read_text("utf-8"))
    inner, at = drawn.choice(list(_places(said)))
    inner[at] = drawn.choice(VALUES)
    path.write_text(json.dumps(said), "utf-8")
    return f"{at} = {str(inner[at])[:60]!r}"


def _places(said: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each (object or list, name or index) of a document; of long lists the ends."""
    names = list(said) if isinstance(said, dict) else [at for at in range(len(said)) if at < 3 or at > len(said) - 3]
    for name in names:
        yield said, name
        if isinstance(said[name], dict | list):
            yield from _places(said[name])


def _strange_header(path: Path, drawn: random.Random) -> str:
    """Change a safetensors file: a value of its header, the length of it, or where the file ends."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    way = drawn.randrange(4)
    if way == 0:
        path.write_bytes(drawn.choice([2**63, 2**40, len(whole), length + 1, 0]).to_bytes(8, "little") + whole[8:])
        return "another length of the header"
    if way == 1:
        path.write_bytes(whole[: drawn.randrange(len(whole))])
        return "cut"
    inner, at = drawn.choice(list(_places(header)))
    inner[at] = drawn.choice([*VALUES, "F64", "I8", "BOOL", [2**40, 2**40], [0, 2**62], [-1, -1]])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return f"{at} = {str(inner[at])[:60]!r}"


def _strange_gguf(path: Path, drawn: random.Random) -> str:
    """Change a GGUF file: a field's type or value, a count, a length, a tensor's shape, or where the file ends."""
    if drawn.random() < 0.2:
        path.write_bytes(path.read_bytes()[: drawn.randrange(path.stat().st_size)])
        return "cut"
    if drawn.random() < 0.3:  # any number or text of the header, or bytes that are missing or too many there
        whole, at = bytearray(path.read_bytes()), drawn.choice(GgufParts.borders(path))
        other = drawn.choice([drawn.randbytes(drawn.choice([1, 4, 8])), *(n.to_bytes(8, "little") for n in _LENGTHS)])
        taken = drawn.choice([0, 1, 4, 8, *[len(other)] * 3])
        whole[at : at + taken] = other
        path.write_bytes(whole)
        return f"{other!r} in place of {taken} bytes at {at}"
    if drawn.random() < 0.2:  # the counts of tensors and fields
        whole, at = bytearray(path.read_bytes()), drawn.choice([8, 16])
        whole[at : at + 8] = drawn.choice([0, 1, 2**31, 2**62, 2**64 - 1]).to_bytes(8, "little")
        path.write_bytes(whole)
        return f"a count at {at}"
    parts = GgufParts.of(path)
    if drawn.random() < 0.3:
        name = drawn.choice(list(parts.tensors))
        sizes, kind, at = parts.tensors[name]
        odd = drawn.choice([([2**62, 4], kind, at), ([0], kind, at), (sizes, 99, at), (sizes[::-1], kind, 2**60)])
        GgufParts(parts.fields, parts.tensors | {name: odd}, parts.data).write(path)
        return f"{name.decode()}: {odd!r}"
    field = drawn.choice(list(parts.fields)).decode()
    value = drawn.choice([(UINT32, 0), (UINT32, 2**32 - 1), (INT32, -1), (FLOAT32, 1e30), (TEXT, b"no_such_thing")])
    parts.saying(field, *value).write(path)
    return f"{field} = {value}"


FILES: Mapping[str, Callable[[Path, random.Random], str]] = {
    "tokenizer.json": _strange_json,
    "tokenizer_config.json": _strange_json,
    "generation_config.json": _strange_json,
    "adapter_config.json": _strange_json,
    "adapter_model.safetensors": _strange_header,
    "model.safetensors": _strange_header,
    "tiny.gguf": _strange_gguf,
}


def _tried(made: Path, name: str) -> str:
    adapter = str(made / "adapter") if name.startswith("adapter") else None
    try:
        model = load_model(made / ("tiny.gguf" if name == "tiny.gguf" else "model"), name="m", adapter=adapter)
    except ModelLoadError as error:
        why = " ".join(str(error).replace(str(made), "").split())[:280]
        return f"FINDING foreign: {why}" if _FOREIGN.search(why) else f"refused: {why}"
    except Exception as error:
        return unexpected(error)
    try:
        return asyncio.run(_answers(model))
    except GenerationFailed as error:
        return f"FINDING was loaded and cannot answer: {error.message[:200]}"
    except Exception as error:
        return unexpected(error)


async def _answers(model: Any) -> str:
    async with serving(model) as engine:
        jobs = [a_job(model, ids, max_tokens=4) for ids in ([65, 66, 67], [70] * 9)]
        found = await answered(engine, *jobs)
    model.tokenizer("some text to count", add_special_tokens=True)
    return f"answers {len(found)}"


if __name__ == "__main__":
    main()
