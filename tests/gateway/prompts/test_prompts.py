"""Prompts out of templates, examples and documents: what comes first, what fits, what rails see, what is cached."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.prompts import PromptBuilder
from sluicegate.gateway.prompts.documents import fitting, ordered
from sluicegate.gateway.prompts.summary import extractive, summariser
from sluicegate.gateway.settings import PromptSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, Document, Job, NotFound, Parts, RequestError
from sluicegate.plugins.testing import make_request
from sluicegate.plugins.testing.doubles import FakeModel

TEMPLATE: dict[str, Any] = {
    "system": "You speak {{ language }}.",
    "examples": [{"user": "one?", "assistant": "1"}],
    "user": "{{ context }}|{{ question }}|{{ language }}",
}
MODEL = FakeModel(context_length=2000)  # one token a byte


def prompts(**settings: Any) -> PromptBuilder:
    return PromptBuilder(PromptSettings(templates={"t@1": TEMPLATE}, **settings))


async def prompt(made: PromptBuilder, text: str = "why?", **parts: Any) -> list[tuple[str, str]]:
    request = made.expand(make_request(text, parts=Parts(**parts)))
    return [(m.role, m.content) for m in (await made.arrange(request, MODEL)).request.messages]


async def test_what_is_stable_comes_first_and_the_question_last() -> None:
    documents = (Document("fact", "book"),)
    found = await prompt(prompts(), template="t@1", variables={"language": "Danish"}, documents=documents)
    assert found == [
        ("system", "You speak Danish."),
        ("user", "one?"),
        ("assistant", "1"),
        ("user", "[book]\nfact|why?|Danish"),
    ]


async def test_documents_need_no_template() -> None:
    assert await prompt(prompts(), documents=(Document("a"), Document("b"))) == [("user", "a\n\nb\n\nwhy?")]


async def test_the_newest_version_is_taken_where_none_is_named() -> None:
    made = PromptBuilder(PromptSettings(templates={f"t@{n}": {"system": f"v{n}"} for n in (1, 2, 10)}))
    assert (await prompt(made, template="t"))[0] == ("system", "v10")
    assert (await prompt(made, template="t@2"))[0] == ("system", "v2")
    with pytest.raises(NotFound, match="there are: t@1, t@10, t@2"):
        await prompt(made, template="x")


async def test_a_missing_variable_is_named() -> None:
    with pytest.raises(RequestError, match="language"):
        await prompt(prompts(), template="t@1")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ x.__init__.__globals__ }}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(99999) %}xxxxxxxxxx{% endfor %}",
        "{{ 1/0 }}",
    ],
)
async def test_templates_run_in_a_sandbox(text: str) -> None:
    made = PromptBuilder(PromptSettings(templates={"t@1": {"system": text}}))
    with pytest.raises(RequestError):
        await prompt(made, template="t@1", variables={"x": "y"})


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ({"system": "{{ x"}, "line 1"),
        ({"sistem": "x"}, "has no 'sistem'; did you mean 'system'?"),
        ({"system": "{% endfor %}"}, "endfor"),
    ],
)
def test_a_template_that_is_none_is_refused_at_the_start(template: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        PromptBuilder(PromptSettings(templates={"t@1": template}))


def test_templates_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "invoice@3.toml").write_text('system = "Read."\n[[examples]]\nuser = "a"\nassistant = "b"\n')
    found = PromptBuilder(PromptSettings(folder=str(tmp_path))).templates.get("invoice")
    assert (found.id, found.examples) == ("invoice@3", (("a", "b"),))
    (tmp_path / "no version.toml").write_text("")
    with pytest.raises(ConfigurationError, match="invoice@1"):
        PromptBuilder(PromptSettings(folder=str(tmp_path)))


async def test_documents_are_kept_to_their_budget_best_first() -> None:
    documents = tuple(Document(f"{n}" * 100, score=n) for n in range(1, 6))
    [(_, content)] = await prompt(prompts(order="score"), documents=documents, context_tokens=250)
    assert content.startswith("5" * 100 + "\n\n" + "4" * 100)
    assert content.count("3") < 60
    assert not set("12") & set(content)


def test_a_document_is_cut_between_words() -> None:
    [cut], left = fitting([Document("alpha beta gamma delta epsilon zeta")], 25, len)
    assert cut.text == "alpha beta gamma [...]"
    assert not left


def test_the_best_documents_stand_at_the_edges() -> None:
    documents = [Document(str(n), score=n) for n in (3, 5, 1, 4, 2)]
    assert "".join(d.text for d in ordered(documents, "edges", documents)) == "53124"
    assert "".join(d.text for d in ordered(documents, "score", documents)) == "54321"
    assert "".join(d.text for d in ordered(documents, "given", documents)) == "35142"


async def test_what_does_not_fit_is_summarised_where_asked() -> None:
    filler = "Nothing of interest stands here at all. " * 20
    documents = (Document("The first one says little.", score=2), Document(f"{filler}The parcel is in Oslo.", score=1))
    made = prompts(summarise="extractive", order="score")
    [(_, content)] = await prompt(made, "Where is the parcel?", documents=documents, context_tokens=160)
    assert content.startswith("The first one says little.")
    assert "The parcel is in Oslo." in content
    assert len(content) <= 160 + len("\n\nWhere is the parcel?") + 4
    assert await extractive(documents, "x", 0, len) == ""


def test_a_summariser_of_the_operators_own_is_imported_by_name() -> None:
    assert summariser("sluicegate.gateway.prompts.summary:extractive") is extractive
    for wrong in ("nothing", "no.such.module:f", "sluicegate.gateway.prompts.summary:nothing"):
        with pytest.raises(ConfigurationError):
            summariser(wrong)


def app(**more: Any) -> TestApp:
    settings = {"prompts": {"templates": {"t@1": TEMPLATE, "t@2": {**TEMPLATE, "system": "Other."}}}}
    return TestApp(settings=settings, **more)


def ask(gateway: TestApp, template: str = "t@1", language: str = "Danish", **more: Any) -> Any:
    extension = {"template": template, "variables": {"language": language}, **more}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "why?"}], "temperature": 0}
    return gateway.client.post("/v1/chat/completions", json={**body, "sluicegate": extension})


def test_the_model_reads_what_was_arranged() -> None:
    with app() as gateway:
        assert ask(gateway, context=[{"text": "fact", "source": "book"}]).status_code == 200
        [job] = gateway.model.jobs
        assert "You speak Danish." in job.prompt.text
        assert job.prompt.text.index("one?") < job.prompt.text.index("[book]\nfact|why?|Danish")
        assert ask(gateway, template="none").status_code == 404
        assert ask(gateway, variabels={}).status_code == 400


def test_rails_see_documents_and_variables_before_anything_is_made_of_them() -> None:
    stages = {"screen": {"blocklist": {"phrases": ["project nightingale"], "action": "block"}}}
    with app(pipeline={"screen": ["blocklist"]}, stages=stages) as gateway:
        for more in ({"context": [{"text": "about project nightingale"}]}, {"language": "project nightingale"}):
            refused = ask(gateway, **more)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "content_filter")
        assert not gateway.model.jobs


def test_what_rails_redact_in_a_document_stays_redacted() -> None:
    stages = {"screen": {"pii": {"action": "redact"}}}
    with app(pipeline={"screen": ["pii"]}, stages=stages) as gateway:
        ask(gateway, context=[{"text": "Write to jane.doe@example.com today."}])
        assert "jane.doe" not in gateway.model.jobs[0].prompt.text
        assert "today." in gateway.model.jobs[0].prompt.text


def test_the_cache_goes_by_the_template_and_its_text() -> None:
    with app(pipeline={"recall": ["memory"]}) as gateway:
        said = [ask(gateway, template=t).headers["x-sluicegate-cache"] for t in ("t@1", "t@1", "t@2", "t@1")]
        assert said == ["miss", "hit", "miss", "hit"]


def test_another_model_gets_what_fits_it() -> None:
    """The first model fails; the documents are fitted anew to the second."""

    def script(job: Job) -> list[str]:
        from sluicegate.plugins import Overloaded

        if job.model == "a":
            raise Overloaded("full", retry_after_s=1)
        return ["yes"]

    routing = {"models": {"a": {"fallback": ["b"]}}}
    settings = {"prompts": {"templates": {"t@1": TEMPLATE}}, "routing": routing}
    with TestApp(settings=settings, names=("a", "b"), script=script) as gateway:
        gateway.model.models["b"].context_length = 400
        context = [{"text": f"word{n} " * 30, "score": n} for n in range(9)]
        body = {"messages": [{"role": "user", "content": "why?"}], "model": "a", "max_tokens": 10}
        extension = {"template": "t", "variables": {"language": "x"}, "context": context}
        answer = gateway.client.post("/v1/chat/completions", json={**body, "sluicegate": extension})
        assert answer.status_code == 200, answer.text
        first, second = gateway.model.jobs
        assert len(second.prompt.text) < 400 < len(first.prompt.text)
        assert "word8" in second.prompt.text
