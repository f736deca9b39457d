"""Figures of an evaluation: each version by itself, and two beside each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.commands.eval.asking import AskedCase
from sluicegate.gateway.commands.eval.checks import CheckScore, validator_of
from sluicegate.gateway.commands.statistics import Interval, mean, mean_score, paired, quantile

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
    """A reply with its checks. `score` is their mean; it passes with all of them. `unjudged` says why the judge gave
    no mark: the judge's trouble is no fault of the reply."""

    asked: AskedCase
    checks: tuple[CheckScore, ...]
    unjudged: str = ""

    @property
    def error(self) -> str:
        """Return why the case counts in no figure but `errors`; empty where it counts."""
        return self.asked.reply.error or (f"the judge could not be asked: {self.unjudged}" if self.unjudged else "")

    @property
    def score(self) -> float:
        return sum(check.score for check in self.checks) / len(self.checks) if self.checks else 0.0

    @property
    def passed(self) -> bool:
        return not self.error and all(check.passed for check in self.checks)


def figures(judged: Sequence[ScoredCase], prices: TokenPrices, seed: int) -> dict[str, Any]:
    """Report one version. What could not be asked counts in `errors` alone. Where cases repeat, intervals are over
    cases, since answers to one case are no independent cases."""
    asked = [one for one in judged if not one.error]
    replies = [one.asked.reply for one in asked]
    structured = [one for one in asked if one.asked.case.schema is not None and not one.asked.reply.refused]
    return {
        "answers": len(asked),
        "errors": len(judged) - len(asked),
        "unjudged": sum(bool(one.unjudged) for one in judged),
        "quality": _plain(mean_score(by_case(asked), seed)),
        "passed": _over_cases(asked, lambda one: one.passed, seed),
        "checks": {
            name: _of_check(name, asked, seed) for name in sorted({c.check for one in asked for c in one.checks})
        },
        "tags": {
            tag: _of_tag(tag, asked, seed) for tag in sorted({tag for one in asked for tag in one.asked.case.tags})
        },
        "valid_json": _over_cases(structured, is_json, seed),
        "valid": _over_cases(structured, is_valid, seed),
        "refused": _over_cases(asked, lambda one: one.asked.reply.refused, seed),
        "false_alarms": _failing("answered", asked, seed),
        "missed": _failing("refused", asked, seed),
        "leaks": _failing("not_contains", asked, seed),
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
        "difference": _plain(mean(differences, seed, (-1.0, 1.0))),
        "p": round(paired(differences, seed), 5),
        "better": sum(d > 0 for d in differences),
        "worse": sum(d < 0 for d in differences),
        "worse_cases": [case for case, d in zip(both, differences, strict=True) if d < 0],
    }


def is_worse(compared: dict[str, Any]) -> bool:
    """Return whether the second version is worse, and by more than chance explains."""
    difference = compared["difference"]
    return difference is not None and difference["value"] < 0 and compared["p"] < SIGNIFICANT


def by_case(judged: Iterable[ScoredCase]) -> list[float]:
    return list(_mean_by_case(judged).values())


def is_json(one: ScoredCase) -> bool:
    """Return whether the answer parses as JSON."""
    try:
        one.asked.reply.value  # noqa: B018  # raises where it does not
    except ValueError:
        return False
    return True


def is_valid(one: ScoredCase) -> bool:
    """Return whether the answer is valid under the schema of its case."""
    return is_json(one) and bool(validator_of(one.asked.case.schema, one.asked.case).is_valid(one.asked.reply.value))


def _mean_by_case(judged: Iterable[ScoredCase]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one in judged:
        if not one.error:
            found.setdefault(one.asked.case.id, []).append(one.score)
    return {case: sum(scores) / len(scores) for case, scores in found.items()}


def _of_check(name: str, judged: Sequence[ScoredCase], seed: int) -> dict[str, Any] | None:
    having = [one for one in judged if any(check.check == name for check in one.checks)]
    return _over_cases(having, lambda one: _mean_of([c.score for c in one.checks if c.check == name]), seed)


def _of_tag(tag: str, judged: Sequence[ScoredCase], seed: int) -> dict[str, Any] | None:
    return _over_cases([one for one in judged if tag in one.asked.case.tags], lambda one: one.score, seed)


def _failing(check: str, judged: Sequence[ScoredCase], seed: int) -> dict[str, Any] | None:
    """Return the share of replies that fail a check of this name."""
    having = [one for one in judged if any(scored.check == check for scored in one.checks)]
    return _over_cases(having, lambda one: not all(c.passed for c in one.checks if c.check == check), seed)


def _over_cases(judged: Sequence[ScoredCase], value: Callable[[ScoredCase], float], seed: int) -> dict[str, Any] | None:
    """Return the mean over cases of what each case has on average over its repeats."""
    found: dict[str, list[float]] = {}
    for one in judged:
        found.setdefault(one.asked.case.id, []).append(float(value(one)))
    return _plain(mean_score([_mean_of(values) for values in found.values()], seed))


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _plain(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {name: round(value, 5) for name, value in dataclasses.asdict(interval).items()}
