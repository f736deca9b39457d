"""Against the real library, with recognisers that need no model."""

import asyncio

import pytest

pytest.importorskip("presidio_analyzer", reason="pip install presidio-analyzer")

from sluicegate_presidio_screen import PresidioScreen, PresidioSettings

from sluicegate.plugins import Caller, ConfigurationError, read_settings
from sluicegate.plugins.testing import check_stage, make_request

BLANK = {"nlp_model": "blank", "deny": {"PROJECT_LEAD": ["Wilhelmina Oduya"]}}


def read(table):
    return read_settings(PresidioSettings, table, "stages.screen.presidio")


def screened(text, **settings):
    async def run():
        rail = PresidioScreen(read({**BLANK, **settings}))
        await rail.start()
        try:
            return await rail.screen(make_request(text), Caller())
        finally:
            await rail.close()

    return asyncio.run(run())


def test_names_on_the_list_and_patterns_are_taken_out():
    result = screened("Ask Wilhelmina Oduya at w.oduya@example.com.", entities=["PROJECT_LEAD", "EMAIL_ADDRESS"])
    assert result.action == "redact"
    assert result.messages[0].content == "Ask <PROJECT_LEAD> at <EMAIL_ADDRESS>."
    assert result.reason == "presidio: EMAIL_ADDRESS, PROJECT_LEAD"


def test_a_text_without_any_passes():
    assert screened("How high is the tide today?").action == "pass"


@pytest.mark.parametrize("action", ["block", "escalate"])
def test_the_action_is_the_operators(action):
    assert screened("Ask Wilhelmina Oduya", action=action).action == action


def test_other_roles_are_left_alone():
    async def run():
        rail = PresidioScreen(read({**BLANK, "roles": ["tool"]}))
        await rail.start()
        return await rail.screen(make_request("Wilhelmina Oduya"), Caller())

    assert asyncio.run(run()).action == "pass"


@pytest.mark.parametrize("wrong", [{"entity": []}, {"action": "warn"}, {"score": 2}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        read(wrong)


def test_a_pipeline_that_is_not_installed_is_never_fetched():
    with pytest.raises(ConfigurationError, match="install it"):
        screened("x", nlp_model="xx_no_such_model")


def test_it_keeps_the_contract_of_its_slot():
    assert check_stage("screen", PresidioScreen(read(BLANK))) == []
