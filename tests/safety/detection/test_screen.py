"""The rail: thresholds decide, roles are told apart, shadow mode only says, and what breaks fails closed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from sluicegate.plugins import Caller, ConfigurationError, Message, Registry, Request, StageFailed, ToolCall
from sluicegate.safety.detection import DetectionScreen, Finding, JudgePolicy, Thresholds, register
from tests.safety.detection.attacks import ATTACK, MAIL, PLAIN, PLANTED, QUOTING


@dataclass
class Fixed:
    """A judge that gives each text the number it ends with; `sleep_s` and `error` make it fail."""

    inline_chars: int = 1_000
    sleep_s: float = 0.0
    error: Exception | None = None

    def user(self, text: str) -> Finding:
        time.sleep(self.sleep_s)
        if self.error:
            raise self.error
        return Finding(float(text.rsplit(maxsplit=1)[-1]), "user's words")

    def document(self, text: str) -> Finding:
        return Finding(self.user(text).score, "document")


def request(*messages: Message, model: str = "m") -> Request:
    return Request(id="r", model=model, messages=messages)


async def screened(
    policy: JudgePolicy, *messages: Message, judge: Fixed | None = None, model: str = "m"
) -> tuple[str, str]:
    screen = DetectionScreen("injection", judge or Fixed(), policy)
    result = await screen.screen(request(*messages, model=model), Caller())
    return result.action, result.reason


@pytest.mark.parametrize(("score", "action"), [(0.49, "pass"), (0.5, "escalate"), (0.84, "escalate"), (0.85, "block")])
async def test_thresholds_give_pass_escalate_block(score: float, action: str) -> None:
    assert (await screened(JudgePolicy(), Message("user", f"hi {score}")))[0] == action


async def test_the_worst_message_decides_and_is_named() -> None:
    """The result carries its score, its reason and its place."""
    screen = DetectionScreen("injection", Fixed(), JudgePolicy())
    found = await screen.screen(
        request(Message("user", "a 0.6"), Message("user", "b 0.9"), Message("user", "c 0.1")), Caller()
    )
    assert (found.action, found.score) == ("block", 0.9)
    assert found.reason == "injection: user's words in messages[1], score 0.90"


async def test_roles_are_told_apart() -> None:
    """Tool results and messages named as documents are documents; roles that are not listed are not read."""
    policy = JudgePolicy(document=Thresholds(2.0, 2.0))
    assert (await screened(policy, Message("tool", "x 0.9")))[0] == "pass"
    assert (await screened(policy, Message("user", "x 0.9", name="document")))[0] == "pass"
    assert (await screened(policy, Message("user", "x 0.9")))[0] == "block"
    assert (await screened(policy, Message("system", "x 0.9"), Message("assistant", "x 0.9")))[0] == "pass"


async def test_what_stands_between_tags_is_a_document() -> None:
    """An open tag alone hides nothing: the text stays the user's words."""
    policy = JudgePolicy(user=Thresholds(2.0, 2.0))
    tagged = Message("user", "Sum up: <document title 0.1>text 0.9</document> thanks 0.1")
    assert await screened(policy, tagged) == ("block", "injection: document in a document in messages[0], score 0.90")
    titled = Message("user", "Sum up: <document title 0.9>text 0.1</document> thanks 0.1")
    assert await screened(policy, titled) == ("block", "injection: document in a document in messages[0], score 0.90")
    assert (await screened(policy, Message("user", "<document> text 0.9")))[0] == "pass"
    assert (await screened(JudgePolicy(), Message("user", "<document> text 0.9")))[0] == "block"


async def test_a_document_block_is_one_whatever_the_operator_calls_documents() -> None:
    """`/v1/messages` makes messages of this name."""
    policy = JudgePolicy(user=Thresholds(2.0, 2.0), document_names=frozenset({"page"}))
    for name in ("document", "page"):
        assert (await screened(policy, Message("user", "text 0.9", name)))[0] == "block"


async def test_a_model_may_have_thresholds_of_its_own() -> None:
    policy = JudgePolicy(models={"careful": (Thresholds(0.1, 0.2), Thresholds())})
    assert (await screened(policy, Message("user", "x 0.3"), model="careful"))[0] == "block"
    assert (await screened(policy, Message("user", "x 0.3")))[0] == "pass"


async def test_shadow_mode_says_but_does_not_act() -> None:
    action, reason = await screened(JudgePolicy(shadow=True), Message("user", "x 0.9"))
    assert action == "pass"
    assert reason.startswith("shadow, would block: injection: user's words")


@pytest.mark.parametrize("inline", [0, 1000])
async def test_a_judge_that_throws_fails_closed(inline: int) -> None:
    """On the event loop and in a thread; told otherwise, it lets pass and says so."""
    broken = Fixed(inline_chars=inline, error=RuntimeError("no weights"))
    with pytest.raises(StageFailed, match=r"failed: it could not judge the text; send [a-z ,]+$") as failed:
        await screened(JudgePolicy(), Message("user", "x 0.9"), judge=broken)
    assert failed.value.cause == "RuntimeError: no weights"
    for policy in (JudgePolicy(fail_open=True), JudgePolicy(shadow=True)):
        assert await screened(policy, Message("user", "x 0.9"), judge=broken) == (
            "pass",
            "injection: failed open: RuntimeError: no weights",
        )


async def test_a_judge_that_is_late_fails_closed() -> None:
    slow = Fixed(inline_chars=0, sleep_s=0.3)
    with pytest.raises(StageFailed, match=r"failed: it took too long; send [a-z ,]+$") as failed:
        await screened(JudgePolicy(time_budget_s=0.02), Message("user", "x 0.1"), judge=slow)
    assert failed.value.cause == "took longer than its budget of 0.02 s"


def built(name: str, **settings: object) -> DetectionScreen:
    registry = Registry()
    register(registry)
    stage = registry.build("screen", name, settings)
    assert isinstance(stage, DetectionScreen)
    return stage


async def test_the_built_in_rails_work_as_shipped() -> None:
    """An attack from a user and one planted in a tool result are stopped; harmless and quoting texts pass."""
    injection, harm = built("injection"), built("harm")
    planted = Message("tool", MAIL.replace("{planted}", PLANTED[0]))
    assert (await injection.screen(request(Message("user", ATTACK)), Caller())).action == "block"
    assert (await injection.screen(request(Message("user", "Sum up the mail."), planted), Caller())).action != "pass"
    for text in (*PLAIN, *QUOTING):
        for rail in (injection, harm):
            assert (await rail.screen(request(Message("user", text)), Caller())).action == "pass"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"treshold": 1}, "has no 'treshold'"),
        ({"escalate": "high"}, "escalate must be a number"),
        ({"escalate": 0.9}, "escalate = 0.9 is above block = 0.85"),
        ({"models": {"m": {"blok": 1}}}, "has no 'blok'; did you mean 'block'"),
        ({"roles": ["robot"]}, "roles.1 must be one of system"),
        ({"time_budget_s": 0}, "time_budget_s must be a number above 0"),
        ({"weights": "nowhere.npz"}, "cannot be read"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        built("injection", **settings)


def test_settings_reach_the_policy() -> None:
    policy = built("harm", escalate=0.3, block=0.4, document_block=2, models={"m": {"block": 0.9}}, shadow=True).policy
    assert policy.user == Thresholds(0.3, 0.4)
    assert policy.document == Thresholds(0.5, 2.0)
    assert policy.models["m"] == (Thresholds(0.3, 0.9), Thresholds(0.5, 2.0))
    assert policy.shadow
    assert policy.roles == {"user"}


async def test_the_verdict_names_the_tool_or_document_that_the_text_came_from() -> None:
    call = Message("assistant", "", tool_calls=(ToolCall("c1", "read_mail", "{}"),))
    messages = (Message("user", "hi 0"), call, Message("tool", "x 0.9", tool_call_id="c1"))
    assert (await screened(JudgePolicy(), *messages))[1] == (
        "injection: document in messages[2] (result of read_mail), score 0.90"
    )
    named = Message("user", "x 0.9", name="document")
    assert (await screened(JudgePolicy(), named))[1].endswith("in messages[0] (document document), score 0.90")
    odd = Message("tool", "x 0.9", name="x\n" * 40)
    assert (await screened(JudgePolicy(), odd))[1].endswith("in messages[0], score 0.90")
