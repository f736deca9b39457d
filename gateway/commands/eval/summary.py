"""Figures of an evaluation: each version by itself, and two beside each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.commands.eval.asking import AskedCase
from sluicegate.gateway.commands.eval.checks import CheckScore
from sluicegate.gateway.commands.statistics import Interval, mean, mean_score, paired, quantile, share

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """For a million tokens, in any currency."""

    prompt: float = 0.0
    completion: float = 0.0

    def of(self, asked: AskedCase) -> float:
        return (self.prompt * asked.reply.prompt_tokens + self.completion * asked.reply.completion_tokens) / 1e6


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A reply with its checks. `score` is their mean; it passes with all of them."""

    asked: AskedCase
    checks: tuple[CheckScore, ...]

    @property
    def score(self) -> float:
        return sum(check.score for check in self.checks) / len(self.checks) if self.checks else 0.0

    @property
    def passed(self) -> bool:
        return not self.asked.reply.error and all(check.passed for check in self.checks)


def figures(judged: Sequence[ScoredCase], prices: TokenPrices, seed: int) -> dict[str, Any]:
    """Report one version. What could not be asked counts in `errors` alone. Where cases repeat, intervals are over
    cases, since answers to one case are no independent cases."""
    asked = [one for one in judged if not one.asked.reply.error]
    replies = [one.asked.reply for one in asked]
    structured = [one for one in asked if one.asked.case.schema is not None and not one.asked.reply.refused]
    return {
        "answers": len(asked),
        "errors": len(judged) - len(asked),
        "quality": _plain(mean_score(by_case(asked), seed)),
        "passed": _plain(share(sum(one.passed for one in asked), len(asked))),
        "checks": {name: _plain(mean_score(scores, seed)) for name, scores in sorted(_by_check(asked).items())},
        "tags": {tag: _plain(mean_score(scores, seed)) for tag, scores in sorted(_by_tag(asked).items())},
        "valid_json": _plain(share(sum(is_json(one) for one in structured), len(structured))),
        "refused": _plain(share(sum(reply.refused for reply in replies), len(replies))),
        "false_alarms": _failing(asked, "answered"),
        "missed": _failing(asked, "refused"),
        "leaks": _failing(asked, "not_contains"),
        "latency_s": {f"p{round(100 * q)}": quantile([r.seconds for r in replies], q) for q in (0.5, 0.95, 0.99)},
        "prompt_tokens": sum(reply.prompt_tokens for reply in replies),
        "completion_tokens": sum(reply.completion_tokens for reply in replies),
        "cost": round(sum(prices.of(one.asked) for one in asked), 6),
    }


def comparison(left: Sequence[ScoredCase], right: Sequence[ScoredCase], seed: int) -> dict[str, Any]:
    """Report the second version beside the first, over the cases that both were asked: the mean difference of scores
    with its interval, and p of a paired test."""
    one, other = _mean_by_case(left), _mean_by_case(right)
    both = [case for case in one if case in other]
    differences = [other[case] - one[case] for case in both]
    return {
        "cases": len(both),
        "difference": _plain(mean(differences, seed)),
        "p": round(paired(differences, seed), 5),
        "better": sum(d > 0 for d in differences),
        "worse": sum(d < 0 for d in differences),
        "worse_cases": [case for case, d in zip(both, differences, strict=True) if d < 0],
    }


def is_worse(compared: dict[str, Any]) -> bool:
    """Whether the second version is worse, and by more than chance explains."""
    difference = compared["difference"]
    return difference is not None and difference["value"] < 0 and compared["p"] < SIGNIFICANT


def by_case(judged: Iterable[ScoredCase]) -> list[float]:
    return list(_mean_by_case(judged).values())


def is_json(one: ScoredCase) -> bool:
    """Whether the answer parses; whether it is valid under its schema is what check `schema` says."""
    try:
        one.asked.reply.value  # noqa: B018  # raises where it does not
    except ValueError:
        return False
    return True


def _mean_by_case(judged: Iterable[ScoredCase]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one in judged:
        if not one.asked.reply.error:
            found.setdefault(one.asked.case.id, []).append(one.score)
    return {case: sum(scores) / len(scores) for case, scores in found.items()}


def _by_check(judged: Iterable[ScoredCase]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in judged:
        for check in one.checks:
            found.setdefault(check.check, []).append(check.score)
    return found


def _by_tag(judged: Iterable[ScoredCase]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in judged:
        for tag in one.asked.case.tags:
            found.setdefault(tag, []).append(one.score)
    return found


def _failing(judged: Iterable[ScoredCase], check: str) -> dict[str, Any] | None:
    """The share of replies that fail a check of this name."""
    found = [scored.passed for one in judged for scored in one.checks if scored.check == check]
    return _plain(share(len(found) - sum(found), len(found)))


def _plain(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {name: round(value, 5) for name, value in dataclasses.asdict(interval).items()}
