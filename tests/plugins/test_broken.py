"""A broken plug-in never harms a request that does not need it, and one that does fails closed, by name."""

from __future__ import annotations

import asyncio
import logging
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, Job, PluginError, Registry, RegistryLike, Span, Verdict, discover

INSTALLED = {
    "cannot-import": "import no_such_module_anywhere\ndef register(registry): ...",
    "does-not-compile": "def register(registry) return",
    "exits": "import sys\nsys.exit('goodbye')",
    "raises": "def register(registry):\n    raise RuntimeError('no licence')",
    "half": """
        def register(registry):
            registry.add("record", "half-done", lambda settings: None)
            raise RuntimeError("and then it broke")
        """,
    "old": 'def register(registry):\n    registry.add("admit", "old", lambda settings: None, api_version=0)',
    "taken": 'def register(registry):\n    registry.add("route", "by-name", lambda settings: None)',
    "no-slot": 'def register(registry):\n    registry.add("sing", "song", lambda settings: None)',
    "no-function": "register = 3",
    "no-factory": """
        def register(registry):
            def make(settings):
                raise OSError("the rule file is gone")
            registry.add("moderate", "no-factory", make)
            registry.add("moderate", "nothing-made", lambda settings: None)
        """,
    "good": """
        from sluicegate.plugins import Verdict

        class Rail:
            name = "good"

            def open(self, request, caller, channel):
                return Session()

        class Session:
            seen = 0

            def feed(self, text):
                self.seen += len(text)
                return Verdict(self.seen)

            def close(self):
                return Verdict(self.seen)

        def register(registry):
            registry.add("moderate", "good", lambda settings: Rail())
        """,
}
"""Installed packages by the name of their entry point: one that works among those that do not."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the plug-ins as pip leaves them: a module each, and a `dist-info` that names the entry point."""
    for name, source in INSTALLED.items():
        module = f"stranger_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source), "utf-8")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[sluicegate.plugins]\n{name} = {module}:register\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return


@pytest.mark.usefixtures("installed")
def test_every_broken_package_is_named_and_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A gateway among ten broken plug-ins starts, says what is wrong with each, and serves with the one that works."""
    with caplog.at_level(logging.WARNING), TestApp(pipeline={"moderate": ["good"]}) as gateway:
        assert gateway.ask().text == "Hello back"
    told = "\n".join(record.getMessage() for record in caplog.records)
    for name, said in {
        "cannot-import": "cannot be imported (ModuleNotFoundError",
        "does-not-compile": "cannot be imported (SyntaxError",
        "exits": "cannot be imported (SystemExit: goodbye",
        "raises": "register() failed with RuntimeError: no licence",
        "half": "register() failed with RuntimeError: and then it broke",
        "old": "stage 'old' is written for contract version 0, this gateway speaks version 1",
        "taken": "stage 'by-name' of slot 'route' is taken by sluicegate.gateway.stage",
        "no-slot": "there is no slot 'sing'",
        "no-function": "the entry point must name a function register(registry)",
    }.items():
        assert f"plug-in ignored: {name}: {said}" in told


@pytest.mark.usefixtures("installed")
def test_of_a_plugin_that_failed_half_way_nothing_stays() -> None:
    """Its first stage was registered before it broke."""
    registry = Registry()
    discover(registry)
    assert registry.names("record") == []
    assert registry.names("moderate") == ["good", "no-factory", "nothing-made"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("no-factory", "no-factory: the factory of stage 'no-factory'.*OSError: the rule file is gone"),
        ("nothing-made", r"made NoneType, which has no open\(\)"),
        ("half-done", "no stage 'half-done' is installed"),
    ],
)
def test_a_stage_that_is_wanted_but_cannot_be_made_stops_the_start(stage: str, said: str) -> None:
    """Serving without a rail that the operator asked for would be worse than not serving."""
    with pytest.raises((PluginError, ConfigurationError), match=said):
        TestApp(pipeline={"moderate": [stage]})


# --- a rail that breaks at work ------------------------------------------------------------------------------------


class Moody:
    """Does what `fault` says from the word `bad` on; otherwise it lets everything through."""

    def __init__(self, fault: Any) -> None:
        self.name = "moody"
        self.fault = fault

    def open(self, request: Any, caller: Any, channel: Any) -> Any:
        return MoodySession(self.fault)


class MoodySession:
    def __init__(self, fault: Any) -> None:
        self.fault = fault
        self.seen = 0

    def feed(self, text: str) -> Any:
        self.seen += len(text)
        return self.fault(self.seen) if "bad" in text else Verdict(self.seen)

    def close(self) -> Any:
        return Verdict(self.seen)


def raises(seen: int) -> Verdict:
    raise ZeroDivisionError("by a rail")


def runs_out_of_memory(seen: int) -> Verdict:
    raise MemoryError


def recurses(seen: int) -> Verdict:
    return recurses(seen)


def sleeps(seen: int) -> Verdict:
    time.sleep(0.3)
    return Verdict(seen)


BROKEN = {
    "raises": raises,
    "memory": runs_out_of_memory,
    "recursion": recurses,
    "no verdict": lambda seen: "fine",
    "nothing": lambda seen: None,
    "back": lambda seen: Verdict(0),
    "too far": lambda seen: Verdict(seen + 1),
    "late span": lambda seen: Verdict(seen, (Span(0, 2, "x"),)),
    "no number": lambda seen: Verdict("all"),  # type: ignore[arg-type]
    "half a character": lambda seen: Verdict(seen - 0.5),  # type: ignore[arg-type]
    "a number with a point": lambda seen: Verdict(float(seen)),  # type: ignore[arg-type]
    "no spans": lambda seen: Verdict(seen, None),  # type: ignore[arg-type]
    "a span of floats": lambda seen: Verdict(seen, (Span(seen - 1.5, float(seen), "x"),)),  # type: ignore[arg-type]
    "a replacement that is no text": lambda seen: Verdict(seen, (Span(seen - 2, seen, "x", 7),)),  # type: ignore[arg-type]
    "a block without words": lambda seen: Verdict(seen, block=7),  # type: ignore[arg-type]
    "an escalation without words": lambda seen: Verdict(seen, escalate=7),  # type: ignore[arg-type]
    "an escalation nowhere": lambda seen: Verdict(seen, escalate="x", escalate_at=seen - 0.5),  # type: ignore[arg-type]
    "scores of another kind": lambda seen: Verdict(seen, scores=(("x", "high"),)),  # type: ignore[arg-type]
    "scores that are no pairs": lambda seen: Verdict(seen, scores=7),  # type: ignore[arg-type]
}


def script(job: Job) -> Sequence[str]:
    bad = "bad" in job.prompt.text
    return ["one ", "two ", "bad " if bad else "good ", "four"]


def register(rail: Moody) -> Any:
    def door(registry: RegistryLike) -> None:
        registry.add("moderate", "moody", lambda settings: rail)

    return door


@pytest.mark.parametrize("fault", BROKEN)
async def test_a_rail_that_breaks_ends_its_own_stream_and_no_other(fault: str) -> None:
    """Twelve streams at once: those that break the rail stop before what it did not judge, the others are whole."""
    app = TestApp(register(Moody(BROKEN[fault])), pipeline={"moderate": ["moody"]}, script=script, delay_s=0.002)
    async with app as gateway:
        texts = ["a bad one", "a good one"] * 6
        replies = await asyncio.gather(*(gateway.ask_async(text) for text in texts))
    for text, reply in zip(texts, replies, strict=True):
        if "bad" in text:
            assert (reply.text, reply.finish_reason) == ("one two ", "content_filter")
        else:
            assert (reply.text, reply.finish_reason) == ("one two good four", "stop")


async def test_a_slow_rail_delays_others_but_breaks_none_of_them() -> None:
    """Rails run on the event loop: the delay is shared, the answers are not harmed. The kit says so before."""
    app = TestApp(register(Moody(sleeps)), pipeline={"moderate": ["moody"]}, script=script)
    async with app as gateway:
        replies = await asyncio.gather(*(gateway.ask_async(text) for text in ("a bad one", "a good one")))
    assert [reply.text for reply in replies] == ["one two bad four", "one two good four"]


def test_a_rail_under_another_name_is_refused_at_the_start() -> None:
    """Its verdicts could not be told from another's."""
    rail = Moody(raises)
    rail.name = "sunny"
    with pytest.raises(PluginError, match="calls itself 'sunny'"):
        TestApp(register(rail), pipeline={"moderate": ["moody"]})
