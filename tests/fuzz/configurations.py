"""Write one strange value into the config.json of a served architecture's checkpoint, and load and ask it.

    python -m tests.fuzz.configurations --minutes 20 [--only llama]
    python -m tests.fuzz.configurations --case llama:17

The outcome must be `equal` (the answers are those of `transformers.generate` of the same files; `short`: the context
has no room for the prompts) or `refused`: by a `ModelLoadError` that names the field, or tensors that do not fit. A
finding is anything else: an error of a library, wrapped or not, other answers, a refusal that does not say why, more
memory than the checkpoint's, more time than a child of this process may take (`tests.fuzz.children`).
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import resource
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING

from benchmarks.architectures import answers, generated, prompts, save_kind
from sluicegate.engine import load_model
from sluicegate.plugins import ContextLengthExceeded, ModelLoadError
from tests.fuzz.cases import run, unexpected
from tests.fuzz.children import in_a_child, kept_folder

ROOM_BYTES = 300 << 20
"""What loading and asking may take beside the checkpoint: code that is imported only then, and the engine's own."""
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 7, 2**31, 2**70, 1.5, -0.5, 1e300, float("nan"), float("inf"), True, False, None),
    *("no_such_thing", "", [], [1], [None], ["x"], {}, {"no_such_field": 1}),
)
PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
_FOREIGN = re.compile(r"\(\w*(Error|Exception): ")
_TENSORS = re.compile(
    r"does not hold the tensors|describes a model of|lacks |has no place for|tensors hold|holds [a-z]"
)
_UNHEEDED = {"transformers_version"}
"""Fields that say nothing about the model that its tensors and `model_type` do not."""


def main() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    run(__doc__, case, served())


def served() -> list[str]:
    """Return the architectures whose answers are those of `generate`, as the table says."""
    return re.findall(r"^\| `([^`]+)` \| equal \|", PAGE.read_text("utf-8"), re.M)


def case(kind: str, seed: int) -> str:
    """Return how the checkpoint of `kind` ends with the strange value of `seed`."""
    folder, drawn = _checkpoint(kind), random.Random(f"{kind} {seed}")
    said = json.loads((folder / "config.json").read_text("utf-8"))
    place, value = _strange(said, drawn)
    ends = in_a_child(lambda: _ends(folder, said, place))
    return f"{ends} [{place} = {value!r}]"[:500]


@cache
def _checkpoint(kind: str) -> Path:
    folder = kept_folder(kind)
    save_kind(kind, folder, torch.float32)
    return folder


def _strange(said: dict[str, Any], drawn: random.Random) -> tuple[str, Any]:
    """Change one field of `said`, or of an object in it; return its name and what it is now. An object may become a
    list, and any field may be missing."""
    inner, name = drawn.choice(list(_fields(said)))
    if drawn.random() < 0.05:
        was = inner.pop(name)
        return name, f"missing, was {was!r}"
    if isinstance(inner[name], dict) and drawn.random() < 0.3:
        inner[name] = [inner[name]]
    elif isinstance(inner[name], list) and inner[name] and drawn.random() < 0.5:
        inner[name] = [*inner[name][:-1], drawn.choice(VALUES)]
    else:
        inner[name] = drawn.choice(VALUES)
    return name, inner[name]


def _fields(said: dict[str, Any]) -> Any:
    for name, value in said.items():
        if name not in _UNHEEDED:
            yield said, name
        if isinstance(value, dict):
            yield from _fields(value)


def _ends(folder: Path, said: dict[str, Any], name: str) -> str:
    with tempfile.TemporaryDirectory() as made:
        changed = Path(made) / "model"
        changed.mkdir()
        for path in folder.iterdir():
            (changed / path.name).symlink_to(path)
        (changed / "config.json").unlink()
        (changed / "config.json").write_text(json.dumps(said), "utf-8")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ends = _tried(changed, _names(said, name))
        took = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        allowed = ROOM_BYTES + 4 * sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return ends if took < allowed or ends.startswith("FINDING") else f"FINDING took {took >> 20} MiB"


def _names(said: dict[str, Any], name: str) -> set[str]:
    """Return what a field is called: by its file, and by the code that reads it."""
    kind = said.get("model_type")
    known = CONFIG_MAPPING[kind].attribute_map if isinstance(kind, str) and kind in CONFIG_MAPPING else {}
    return {name, known.get(name, name)} | {own for own, other in known.items() if other == name}


def _tried(folder: Path, names: set[str]) -> str:
    try:
        model = load_model(folder, name="tiny")
    except ModelLoadError as error:
        return _refused(str(error).replace(str(folder), ""), names)
    except Exception as error:
        return unexpected(error)
    try:
        found = asyncio.run(answers(model))
    except ContextLengthExceeded:
        return "short"
    except Exception as error:
        return f"FINDING was loaded and cannot answer: {type(error).__name__}: {str(error)[:200]}"
    try:
        expected = [generated(folder, prompt) for prompt in prompts()]
    except Exception as error:
        return f"FINDING is served, and generate raises {type(error).__name__}: {str(error)[:150]}"
    return "equal" if found == expected else "FINDING other answers"


def _refused(why: str, names: set[str]) -> str:
    if _FOREIGN.search(why):
        return f"FINDING foreign: {' '.join(why.split())[:260]}"
    if any(re.search(rf"\b{re.escape(name).replace('_', '[_ ]')}\b", why, re.IGNORECASE) for name in names):
        return "refused by the field"
    return "refused by tensors" if _TENSORS.search(why) else f"FINDING unnamed: {' '.join(why.split())[:260]}"


if __name__ == "__main__":
    main()
