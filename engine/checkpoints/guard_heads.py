"""Read the heads of a guard that judges tokens, and compute them (Qwen3Guard-Stream; Zhao et al., "Qwen3Guard", 2025).

Such a checkpoint is a decoder without a vocabulary to write with. Two matrices bring a token's last state [d] to
features [i], one for tokens of answers, one for the last token of a question; behind each stand an RMS norm and two
small heads, of levels (safe, unsafe ...) and of categories. `config.json` names both.

Both matrices together take the place of the vocabulary matrix, so that every way to compute a decoder computes the
features as its logits [2 i]. The norms and heads, some thousand numbers, are computed here.

Not covered: other architectures with heads on tokens; a folder of one is refused by the tensors that have no place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sluicegate.engine.checkpoints.fitting import refuse_no_numbers
from sluicegate.engine.checkpoints.stored_tensors import LazyTensor
from sluicegate.plugins import ModelLoadError, TokenJudgement

ARCHITECTURE = "Qwen3ForGuardModel"
VOCABULARY = "lm_head.weight"
LEVELS = ("safe", "controversial", "unsafe")
"""What levels may be called, in any case."""


@dataclass(frozen=True, slots=True)
class _HeadNames:
    """Names of one pair of heads: its tensors without `.weight`, and its fields in `config.json`."""

    pre: str
    norm: str
    level: str
    category: str
    levels: str
    categories: str


ANSWER = _HeadNames(
    "risk_level_category_pre",
    "risk_level_category_layernorm",
    "risk_level_head",
    "category_head",
    "response_risk_level_map",
    "response_category_map",
)
QUESTION = _HeadNames(
    "query_risk_level_category_pre",
    "query_risk_level_category_layernorm",
    "query_risk_level_head",
    "query_category_head",
    "query_risk_level_map",
    "query_category_map",
)
SIDES = (ANSWER, QUESTION)


class _Heads(nn.Module):
    """Norm and heads for answers or questions, float32: `norm` [i], `level` [l, i], `category` [c, i]."""

    norm: Tensor
    level: Tensor
    category: Tensor

    def __init__(
        self, tensors: Mapping[str, Tensor], side: _HeadNames, said: Mapping[str, Sequence[str]], epsilon: float
    ) -> None:
        super().__init__()
        for part, name in (("norm", side.norm), ("level", side.level), ("category", side.category)):
            self.register_parameter(part, nn.Parameter(tensors[f"{name}.weight"].float(), requires_grad=False))
        self._levels, self._categories = said[side.levels], said[side.categories]
        self._epsilon = epsilon

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of levels [T, l] and of categories [T, c] for `features` [T, i] float32."""
        even = features * torch.rsqrt(features.square().mean(-1, keepdim=True) + self._epsilon)
        normed = even * self.norm
        return normed @ self.level.T, normed @ self.category.T

    def judgements(self, features: Tensor) -> list[TokenJudgement]:
        levels, categories = self(features)
        chances = levels.softmax(-1)
        rows = zip(chances.argmax(-1).tolist(), chances.amax(-1).tolist(), categories.argmax(-1).tolist(), strict=True)
        return [TokenJudgement(self._levels[at], chance, self._categories[named]) for at, chance, named in rows]


class GuardHeads(nn.Module):
    """The heads of a guard for answers and for questions. They take the model's features [T, 2 i]."""

    def __init__(self, tensors: Mapping[str, Tensor], said: Mapping[str, Sequence[str]], epsilon: float) -> None:
        super().__init__()
        self.answer, self.question = (_Heads(tensors, side, said, epsilon) for side in SIDES)
        self.inner = len(tensors[f"{ANSWER.norm}.weight"])

    def judge_answer(self, features: Tensor) -> list[TokenJudgement]:
        """Return a judgement for each token of an answer, from `features` [T, 2 i]."""
        return self.answer.judgements(features[:, : self.inner].float())

    def judge_question(self, features: Tensor) -> list[TokenJudgement]:
        """Return a judgement for each token that ends a question, from `features` [T, 2 i]."""
        return self.question.judgements(features[:, self.inner :].float())


@dataclass(frozen=True, slots=True)
class GuardParts:
    """The parts of a guard's checkpoint besides its decoder."""

    heads: GuardHeads
    features: Tensor
    """[2 i, d], of answers and then of questions."""


def is_token_guard(config: Any) -> bool:
    return list(getattr(config, "architectures", None) or ()) == [ARCHITECTURE]


def take_guard(tensors: dict[str, LazyTensor], config: Any, where: str) -> GuardParts:
    """Take the heads out of the `tensors` of a folder, so that a decoder whose vocabulary is tied to its embeddings is
    left. Raises `ModelLoadError` with the names of tensors that are missing or have another shape."""
    said = {name: _names(config, name, where) for side in SIDES for name in (side.levels, side.categories)}
    for side in SIDES:
        if odd := [level for level in said[side.levels] if level.lower() not in LEVELS]:
            raise ModelLoadError(
                f"{where!r}: {side.levels} of config.json names the level {odd[0]!r}; known are Safe, Controversial "
                "and Unsafe, and what another means is not guessed"
            )
    taken = _fitting(tensors, config, said, where)
    tensors.pop(VOCABULARY, None)
    config.tie_word_embeddings = True
    features = torch.cat([taken[f"{side.pre}.weight"] for side in SIDES])
    return GuardParts(GuardHeads(taken, said, float(config.rms_norm_eps)), features)


def give_guard(module: Any, parts: GuardParts) -> None:
    """Attach the heads to a decoder as `guard_heads`, and make it return features in place of logits."""
    made = nn.Linear(parts.features.shape[1], parts.features.shape[0], bias=False, device="meta")
    made.weight = nn.Parameter(parts.features.to(module.dtype), requires_grad=False)
    module.config.tie_word_embeddings = False
    module.lm_head = made
    module.guard_heads = parts.heads


def _names(config: Any, field: str, where: str) -> list[str]:
    """Return names in order of their numbers. Raises `ModelLoadError` unless these are 0, 1, 2 ..."""
    found = getattr(config, field, None)
    try:
        named = {int(number): str(name) for number, name in dict(found).items()}  # type: ignore[arg-type]
    except (TypeError, ValueError):
        named = {}
    if not named or sorted(named) != list(range(len(named))):
        raise ModelLoadError(
            f"{where!r}: {field} of config.json is {found!r}; expected names by their numbers from 0, since without "
            "them no verdict could be told. Fetch config.json anew"
        )
    return [named[number] for number in range(len(named))]


def _fitting(
    tensors: dict[str, LazyTensor], config: Any, said: Mapping[str, Sequence[str]], where: str
) -> dict[str, Tensor]:
    """Remove the heads' tensors from `tensors` and return them. Raises `ModelLoadError` if one is missing or
    misshapen."""
    wanted, taken, faults = _shapes(config, said, where), {}, []
    for name, shape in wanted.items():
        found = tensors.pop(name, None)
        if found is None:
            faults.append(f"{name} is missing")
        elif found.shape != shape:
            faults.append(f"{name} is {list(found.shape)}, not {list(shape)}")
        else:
            taken[name] = found.read()
            refuse_no_numbers(name, taken[name], where)
    if faults:
        raise ModelLoadError(
            f"{where!r} does not hold the heads of the guard that its config.json describes ({ARCHITECTURE}): "
            f"{'; '.join(faults)}. Fetch it anew, or correct config.json if it is another model's"
        )
    return taken


def _shapes(config: Any, said: Mapping[str, Sequence[str]], where: str) -> dict[str, tuple[int, ...]]:
    inner, wide = getattr(config, "guard_inner_size", None), int(config.hidden_size)
    if type(inner) is not int or inner < 1:
        raise ModelLoadError(
            f"{where!r}: guard_inner_size of config.json is {inner!r}; expected how wide the heads' features are"
        )
    found: dict[str, tuple[int, ...]] = {}
    for side in SIDES:
        found[f"{side.pre}.weight"] = (inner, wide)
        found[f"{side.norm}.weight"] = (inner,)
        found[f"{side.level}.weight"] = (len(said[side.levels]), inner)
        found[f"{side.category}.weight"] = (len(said[side.categories]), inner)
    return found
