"""The door of detection: stages `injection`, `harm`, `classifier` and `guard` of slot `screen`, and their settings.

All of them: `escalate`, `block` (scores from 0 to 1; above 1 = never), `document_escalate`, `document_block` (the same
for untrusted text), `beside_escalate`, `beside_block` (for tools and schemas), `models` (the first four by name of the
model asked for), `roles`, `document_names`, `document_tags`, `shadow`, `time_budget_s`, `max_chars`, `fail_open`.

`injection`, `harm`: `weights` (a file of your own, from `training.detector.train`). `classifier`: `model` (a folder or
hub name), `categories` (label to reported name), `window_tokens`. `guard`: `model`, `form` (`llama_guard`,
`shield_gemma`, `qwen3_guard`), `policy` (text in place of the guard's own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sluicegate.plugins.contract import RegistryLike, StageFactory
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection import classifier
from sluicegate.safety.detection.detector import Detector
from sluicegate.safety.detection.judges import ClassifierJudge, GuardJudge, guard_named
from sluicegate.safety.detection.screen import DetectionScreen, HarmJudge, InjectionJudge, Judge, Policy, Thresholds
from sluicegate.safety.settings import ROLES, check_keys, flag, some_of, strings, table, text

Settings = Mapping[str, Any]

THRESHOLDS = ("escalate", "block", "document_escalate", "document_block")
KEYS = (
    *THRESHOLDS, "beside_escalate", "beside_block", "models", "roles", "document_names", "document_tags", "shadow",
    "time_budget_s", "max_chars", "fail_open",
)  # fmt: skip

_ROLES = {"injection": ("user", "tool"), "harm": ("user",)}
_MODEL_BUDGET_S = 10.0


def register(registry: RegistryLike) -> None:
    registry.add("screen", "injection", _stage("injection", InjectionJudge))
    registry.add("screen", "harm", _stage("harm", HarmJudge))
    registry.add("screen", "classifier", _classifier)
    registry.add("screen", "guard", _guard)


def _stage(name: str, judge: Callable[[Detector], Judge]) -> StageFactory:
    def build(settings: Settings) -> DetectionScreen:
        stage = f"screen.{name}"
        check_keys(stage, settings, (*KEYS, "weights"))
        path = Path(text(stage, "weights", settings.get("weights", str(classifier.WEIGHTS))))
        return DetectionScreen(name, judge(_detector(path)), policy(stage, settings, _ROLES[name]))

    return build


def _classifier(settings: Settings) -> DetectionScreen:
    stage = "screen.classifier"
    check_keys(stage, settings, (*KEYS, "model", "categories", "window_tokens"))
    judge = ClassifierJudge(
        text(stage, "model", settings.get("model")),
        {label: text(stage, f"categories.{label}", name) for label, name in _categories(stage, settings).items()},
        window=int(number(stage, "window_tokens", settings.get("window_tokens", 512))),
    )
    return DetectionScreen("classifier", judge, _patient(stage, settings))


def _categories(stage: str, settings: Settings) -> Mapping[str, Any]:
    return table(stage, "categories", settings.get("categories", {}))


def _guard(settings: Settings) -> DetectionScreen:
    stage = "screen.guard"
    check_keys(stage, settings, (*KEYS, "model", "form", "policy"))
    form = guard_named(stage, text(stage, "form", settings.get("form")))
    own = text(stage, "policy", settings.get("policy", ""))
    judge = GuardJudge(text(stage, "model", settings.get("model")), form, policy=own)
    return DetectionScreen("guard", judge, _patient(stage, settings))


def _patient(stage: str, settings: Settings) -> Policy:
    """A model may take longer than a dot product."""
    return policy(stage, {"time_budget_s": _MODEL_BUDGET_S, **settings}, ("user", "tool"))


@cache
def _detector(path: Path) -> Detector:
    """One copy in memory, whatever the number of stages; it never changes."""
    return Detector(classifier.load(path))


def policy(stage: str, settings: Settings, roles: tuple[str, ...]) -> Policy:
    """Reads every setting that rails with a judge share. Raises `ConfigurationError` naming the stage and the key."""
    plain = Policy()
    user, document = _thresholds(stage, settings, (Thresholds(), Thresholds()))
    beside = _threshold(stage, settings, "beside_", plain.beside)
    models = table(stage, "models", settings.get("models", {}))
    for model, own in models.items():
        check_keys(f"{stage}.models.{model}", table(stage, f"models.{model}", own), THRESHOLDS)
    return Policy(
        user=user,
        document=document,
        beside=beside,
        models={m: _thresholds(f"{stage}.models.{m}", own, (user, document)) for m, own in models.items()},
        roles=frozenset(some_of(stage, "roles", settings.get("roles", roles), ROLES)),
        document_names=frozenset(strings(stage, "document_names", settings.get("document_names", ("document",)))),
        document_tags=strings(stage, "document_tags", settings.get("document_tags", plain.document_tags)),
        shadow=flag(stage, "shadow", settings.get("shadow", False)),
        time_budget_s=number(stage, "time_budget_s", settings.get("time_budget_s", plain.time_budget_s)),
        max_chars=int(number(stage, "max_chars", settings.get("max_chars", plain.max_chars))),
        fail_open=flag(stage, "fail_open", settings.get("fail_open", False)),
    )


def _thresholds(
    stage: str, settings: Settings, default: tuple[Thresholds, Thresholds]
) -> tuple[Thresholds, Thresholds]:
    """For the user's words, and for documents."""
    return _threshold(stage, settings, "", default[0]), _threshold(stage, settings, "document_", default[1])


def _threshold(stage: str, settings: Settings, prefix: str, default: Thresholds) -> Thresholds:
    escalate = number(stage, f"{prefix}escalate", settings.get(f"{prefix}escalate", default.escalate))
    block = number(stage, f"{prefix}block", settings.get(f"{prefix}block", default.block))
    if escalate > block:
        raise ConfigurationError(
            f"{stage}: {prefix}escalate = {escalate:g} is above {prefix}block = {block:g}; "
            "what is blocked cannot be escalated as well, so lower it"
        )
    return Thresholds(escalate, block)


def number(stage: str, key: str, value: Any) -> float:
    """A positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigurationError(f"{stage}: {key} must be a number above 0, found {value!r}")
    return float(value)
