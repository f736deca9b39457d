"""The rail: Presidio's analyser in one thread, so that a long text does not hold up others' streams."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from sluicegate.plugins import Caller, ConfigurationError, Message, RailProperties, Request, Role, ScreenResult, Within


@dataclass(frozen=True)
class PresidioSettings:
    nlp_model: str = "en_core_web_lg"
    language: str = "en"
    entities: tuple[str, ...] = ()
    deny: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    score: Annotated[float, Within(0, 1)] = 0.5
    action: Literal["redact", "block", "escalate"] = "redact"
    roles: tuple[Role, ...] = ("user", "tool")


class PresidioScreen:
    """`analyzer` stands in for the one that the settings describe, as in tests."""

    def __init__(self, settings: PresidioSettings, analyzer: Any = None) -> None:
        self.settings = settings
        self.properties = RailProperties(version=f"1 {settings}", budget_s=5.0)
        self._analyzer = analyzer
        self._thread = ThreadPoolExecutor(1, "presidio")

    async def start(self) -> None:
        if self._analyzer is None:
            self._analyzer = await asyncio.get_running_loop().run_in_executor(
                self._thread, make_analyzer, self.settings
            )

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        if self._analyzer is None:
            raise RuntimeError("the rail was not started")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._screened, request)

    def _screened(self, request: Request) -> ScreenResult:
        kinds: set[str] = set()
        messages = tuple(self._read(message, kinds) for message in request.messages)
        if not kinds:
            return ScreenResult()
        reason = f"presidio: {', '.join(sorted(kinds))}"
        if self.settings.action == "redact":
            return ScreenResult("redact", reason, messages)
        return ScreenResult(self.settings.action, reason)  # type: ignore[arg-type]

    def _read(self, message: Message, kinds: set[str]) -> Message:
        if message.role not in self.settings.roles or not message.content:
            return message
        found = self._analyzer.analyze(
            text=message.content,
            language=self.settings.language,
            entities=list(self.settings.entities) or None,
            score_threshold=self.settings.score,
        )
        text, end = message.content, len(message.content)
        for result in sorted(found, key=lambda r: (r.start, r.end), reverse=True):
            kinds.add(result.entity_type)
            stop = min(result.end, end)  # an overlap goes to the one that begins later
            if result.start < stop:
                text, end = f"{text[: result.start]}<{result.entity_type}>{text[stop:]}", result.start
        return replace(message, content=text)


def make_analyzer(settings: PresidioSettings) -> Any:
    """Make the analyzer. Raises `ConfigurationError` where the spaCy pipeline is not installed: it is never fetched
    from here."""
    import spacy
    from presidio_analyzer import AnalyzerEngine, PatternRecognizer, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    named = settings.nlp_model
    if named != "blank" and not spacy.util.is_package(named) and not (Path(named) / "meta.json").is_file():
        raise ConfigurationError(
            f"presidio: spaCy has no pipeline {named!r}; install it, name its folder, or say 'blank'"
        )
    engine = SpacyNlpEngine(models=[{"lang_code": settings.language, "model_name": named}])
    load = spacy.blank(settings.language) if named == "blank" else spacy.load(named)
    engine.nlp = {settings.language: load}
    registry = RecognizerRegistry(supported_languages=[settings.language])
    registry.load_predefined_recognizers(languages=[settings.language], nlp_engine=engine)
    for entity, words in settings.deny.items():
        recogniser = PatternRecognizer(entity, deny_list=list(words), supported_language=settings.language)
        registry.add_recognizer(recogniser)
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[settings.language])
