"""Judges that run a model: any sequence classifier of `transformers`, any guard that answers in words.

They run in a worker thread under the rail's time budget; a model that throws, is late, or says nothing that can be
read fails closed. A checkpoint comes from a folder or by its hub name; its own code is never run.

Not covered: batching over requests (one text at a time), and guards in a process of their own. A thread that is late
cannot be killed: it ends with its pass, and until then the next text waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate.plugins.control_tokens import control_tokens, defused
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.detector import NOTHING, Finding
from sluicegate.safety.detection.guards import GuardAnswer, GuardFormat, NoJudgement

HARMLESS_LABELS = frozenset({"label_0", "safe", "benign", "harmless", "normal", "legit", "neutral", "ok"})
"""Labels that count as harmless where settings name no bad ones."""

BATCH = 8
GUARD_WINDOW = 6_000
GUARD_OVERLAP = 500
"""Characters of a text that a guard is asked about at once."""


class ClassifierJudge:
    """Score: the summed probability of the bad labels, worst window. Thread-safe: one text at a time."""

    inline_chars = 0

    def __init__(self, model: str, categories: Mapping[str, str], *, window: int = 512, overlap: int = 64) -> None:
        """Load `model`. `categories` maps labels to what they are reported as; empty = every label but the harmless
        ones."""
        self._tokenizer, self._model = _loaded(model, "AutoModelForSequenceClassification")
        self._bad = _bad_labels(model, self._model.config.id2label, categories)
        self._window = min(window, _longest(self._tokenizer, self._model))
        self._overlap = min(overlap, self._window // 4)
        self._lock = threading.Lock()

    def user(self, text: str) -> Finding:
        with self._lock:
            return self._judged(text)

    document = user

    def _judged(self, text: str) -> Finding:
        import torch

        encoded = self._tokenizer(
            text,
            truncation=True,
            max_length=self._window,
            stride=self._overlap,
            return_overflowing_tokens=True,
            padding=True,
            return_tensors="pt",
        )
        rows = {key: encoded[key] for key in ("input_ids", "attention_mask")}  # [windows, tokens]
        best = NOTHING
        with torch.inference_mode():
            for first in range(0, len(rows["input_ids"]), BATCH):
                logits = self._model(**{key: value[first : first + BATCH] for key, value in rows.items()}).logits
                for row in self._probabilities(logits).tolist():
                    best = max(best, self._finding(row), key=lambda finding: finding.score)
        return best

    def _probabilities(self, logits: Any) -> Any:
        if self._model.config.problem_type == "multi_label_classification":
            return logits.sigmoid()
        return logits.softmax(dim=-1)

    def _finding(self, row: Sequence[float]) -> Finding:
        if any(value != value for value in row):  # not a number
            raise ValueError("the model's answer is not a number")
        worst = max(self._bad, key=lambda i: row[i])
        multi = self._model.config.problem_type == "multi_label_classification"
        score = row[worst] if multi else min(sum(row[i] for i in self._bad), 1.0)
        return Finding(score, self._bad[worst])


class GuardJudge:
    """A language model that says whether a text is safe. Thread-safe: one text at a time."""

    inline_chars = 0

    def __init__(self, model: str, guard: GuardFormat, *, policy: str = "", max_new_tokens: int = 48) -> None:
        self._tokenizer, self._model = _loaded(model, "AutoModelForCausalLM")
        self._guard = guard
        self._policy = policy
        self._max_new_tokens = max_new_tokens
        self._lock = threading.Lock()

    def user(self, text: str) -> Finding:
        with self._lock:
            answers = [self._asked(part) for part in _windows(text)]
        worst = max(answers, key=lambda answer: answer.score)
        return Finding(worst.score, ", ".join(worst.categories) or "unsafe")

    document = user

    def _asked(self, text: str) -> GuardAnswer:
        import torch

        tokens = self._tokenizer(self._prompt(text), return_tensors="pt", add_special_tokens=False)
        ids = tokens["input_ids"]  # [1, tokens]
        with torch.inference_mode():
            if self._guard.choice is not None:
                return GuardAnswer(self._share(self._model(ids).logits[0, -1]))
            produced = self._model.generate(
                ids,
                attention_mask=tokens["attention_mask"],
                max_new_tokens=self._max_new_tokens,
                do_sample=False,
                pad_token_id=self._tokenizer.pad_token_id or 0,
            )
        said = produced[0, ids.shape[1] :]
        is_cut = len(said) >= self._max_new_tokens and int(said[-1]) not in self._ends()
        return self._guard.read(self._tokenizer.decode(said, skip_special_tokens=True), is_cut=is_cut)

    def _ends(self) -> set[int]:
        """Return the tokens with which the model ends what it says."""
        ends = self._model.generation_config.eos_token_id
        return {*ends} if isinstance(ends, list) else {ends}

    def _prompt(self, text: str) -> str:
        """Write the prompt for the text of a user."""
        before, behind = self._guard.asked_by(self._tokenizer, (), "user", self._policy)
        return f"{before}{defused(text, control_tokens(self._tokenizer))}{behind}"

    def _share(self, logits: Any) -> float:
        """Return the probability of the first word of `choice` against the second, from the next token's `logits` [V].
        Raises `NoJudgement` if another token is likelier than both, or logits are not numbers."""
        assert self._guard.choice is not None
        words = [self._first_token(word) for word in self._guard.choice]
        if not bool(logits.isfinite().all()) or int(logits.argmax()) not in words:
            raise NoJudgement("the guard's next token is neither of its two words")
        return float(logits[words].float().softmax(dim=0)[0])

    def _first_token(self, word: str) -> int:
        return int(self._tokenizer(word, add_special_tokens=False)["input_ids"][0])


def _loaded(model: str, kind: str) -> tuple[Any, Any]:
    """Return (tokenizer, model) on the CPU, in evaluation mode. Raises `ConfigurationError` where it cannot be loaded
    or lacks tensors."""
    try:
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        auto = getattr(transformers, kind)
        loaded, found = auto.from_pretrained(model, trust_remote_code=False, output_loading_info=True)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"the model {model!r} cannot be loaded: {error}; name a folder with a checkpoint and its tokenizer"
        ) from error
    if missing := sorted(found["missing_keys"]):
        raise ConfigurationError(
            f"the model {model!r} lacks {len(missing)} tensors of {type(loaded).__name__}, such as {missing[0]!r}, "
            "which would be random numbers; name a checkpoint that was trained to judge"
        )
    loaded.eval()
    return tokenizer, loaded


def _bad_labels(model: str, labels: Mapping[int, str], categories: Mapping[str, str]) -> dict[int, str]:
    """Return index -> category of the labels that count. Raises `ConfigurationError` for a label that the model lacks,
    and where the names do not tell which are bad."""
    unknown = sorted(set(categories) - set(labels.values()))
    if unknown:
        raise ConfigurationError(f"{model}: no label {unknown[0]!r}; the model has {', '.join(labels.values())}")
    if categories:
        return {int(i): categories[label] for i, label in labels.items() if label in categories}
    found = {int(i): label for i, label in labels.items() if label.lower() not in HARMLESS_LABELS}
    if not found or len(found) == len(labels):
        raise ConfigurationError(
            f"{model}: which of the labels {', '.join(labels.values())} are bad? Say so in `categories`"
        )
    return found


def _longest(tokenizer: Any, model: Any) -> int:
    """Return the most tokens both accept. A tokenizer without a limit reports a huge number."""
    return int(min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 512)))


def _windows(text: str) -> list[str]:
    starts = range(0, max(len(text) - GUARD_OVERLAP, 1), GUARD_WINDOW - GUARD_OVERLAP)
    return [text[start : start + GUARD_WINDOW] for start in starts]
