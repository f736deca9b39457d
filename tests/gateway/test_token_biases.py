"""A token is biased under one spelling of its id: of two spellings in one object the second would silently win."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import RunningGateway, running


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with running({}) as found:
        yield found


def ask(gateway: RunningGateway, path: str, bias: dict[str, Any]) -> httpx.Response:
    prompt = {"prompt": "hi"} if path.endswith("/v1/completions") else {"messages": [{"role": "user", "content": "hi"}]}
    return httpx.post(gateway.url + path, json={"model": "bundled", "max_tokens": 4, "logit_bias": bias, **prompt})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    "bias",
    [{"7": -100, "07": 100}, {"+7": 1}, {" 7": 1}, {"7 ": 1}, {"1_0": 1}, {"-0": 1}, {"7.0": 1}, {"7": True}],
)
def test_a_bias_is_refused_unless_its_token_and_number_are_spelled_plainly(
    gateway: RunningGateway, path: str, bias: dict[str, Any]
) -> None:
    """The second spelling of a token, and a truth value, would be taken for something else than was sent."""
    answer = ask(gateway, path, bias)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("logit_bias")


def test_a_plainly_spelled_bias_decides_the_token(gateway: RunningGateway) -> None:
    """A bias of 100 is drawn, one of -100 is not."""
    first = ask(gateway, "/v1/chat/completions", {"7": 100}).json()["choices"][0]["message"]["content"]
    second = ask(gateway, "/v1/chat/completions", {"7": -100}).json()["choices"][0]["message"]["content"]
    assert first != second
