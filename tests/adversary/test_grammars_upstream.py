"""Hostile grammars beside another server's long answer: it is judged on the event loop, and must not hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway.upstream.reading.following import SPARE_S, Following, SpareTime
from sluicegate.grammar import Vocabulary, compile_lark
from sluicegate.grammar.constrainer import GrammarConstrainer
from sluicegate.plugins import GrammarTooCostly
from tests.adversary.joining import Liar, between, call, chat
from tests.adversary.test_grammars import CODES, GRAMMARS
from tests.adversary.test_upstream import Place, both, place, read
from tests.gateway.upstream.servers import ScriptedServer, running, says

TEXTS = {
    "words": "abc " * 700,
    "words without blanks": "a" * 2000,
    "names": "ab, " * 500,
    "expressions": "a+" * 700,
    "right recursion": '"' + "a" * 2000,
    "left recursion": "a" * 2000,
    "hidden recursion": "x" * 1500 + "y" * 500,
    "huge alternation": "00599",
}
BYTES = Vocabulary.from_bytes([*[bytes([byte]) for byte in range(256)], b""], eos_token_ids=[256])


@pytest.fixture(scope="module")
def far() -> Iterator[Place]:
    server = ScriptedServer(says("Hello"))
    with running(server) as url, place(url, server) as app:
        yield Place(app, server)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", TEXTS)
def test_an_answer_that_is_dear_to_judge_ends_with_a_typed_error_or_is_judged(
    far: Place, name: str, stream: bool
) -> None:
    act = both({"content": TEXTS[name]}, usage={"prompt_tokens": 5, "completion_tokens": 900})
    answer = far.ask(act, stream=stream, max_tokens=2000, structured_outputs={"grammar": GRAMMARS[name]})
    _, reason, code = read(answer)
    assert reason is not None or code in CODES | {"upstream_failed"}, answer.text
    far.serves()


def test_all_pieces_and_calls_of_a_choice_share_their_spare_time() -> None:
    compiled, spare = compile_lark("root ::= s\ns ::= s s | s s s | [a-z]\n", BYTES), SpareTime()
    following = Following(compiled, spare)

    def pieces() -> None:
        for _ in range(10_000):
            following.take("a" * 20, "no")

    with pytest.raises(GrammarTooCostly, match="CPU"):
        pieces()
    assert spare.left_s < SPARE_S
    spare.left_s = -1.0
    with pytest.raises(GrammarTooCostly, match="CPU"):
        Following(compiled, spare).take("a", "no")


def test_schemas_of_tools_are_compiled_for_the_tenant_who_sends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tenant's own turn: else the tools of all tenants wait in one queue."""
    compile_for, tenants = GrammarConstrainer.compile_for, set[str]()

    async def noted(self: GrammarConstrainer, tenant: str, *asked: Any) -> Any:
        tenants.add(tenant)
        return await compile_for(self, tenant, *asked)

    monkeypatch.setattr(GrammarConstrainer, "compile_for", noted)
    liar = Liar()
    liar.says(call("{}"), reason="tool_calls")
    with between(liar) as app:
        tenants.clear()  # of what is compiled at the start, for nobody
        said, _ = chat(app, True, True)
    assert said["names"] == "look"
    assert tenants == {"anonymous"}
