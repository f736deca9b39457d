"""The tokenizer of a kept load does as the one of transformers that it was made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError, TemplateError, UndefinedError
from transformers import AutoTokenizer

from sluicegate.engine.model.loading import ENGINE
from sluicegate.engine.text.chat_rendering import render
from sluicegate.engine.text.fast_tokenizer import FastTokenizer, facts_of
from tests.engine.tiny_models import byte_tokenizer

THEIRS = {
    "bundled": AutoTokenizer.from_pretrained(ENGINE / "bundled", trust_remote_code=False),
    "bytes": byte_tokenizer(),
}
TEMPLATES = [
    "{%- for m in messages %}\n  {{- '<|' + m.role + '|>' + m['content'] | trim }}\n{% endfor -%}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{{ bos_token }}{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ ns.n }}:"
    "{{ m.content }}{% if loop.last %}{% break %}{% endif %}{{ eos_token }}{% endfor %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m | tojson }}{{ m.reasoning_content or '' }}{% endif %}\n{% endfor %}{{ tools | tojson(indent=2) }}",
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ dict(a=m.content).a }}{% endfor %}{{ mood }}",
    "{% for m in messages %}{% if m.thinking is defined %}({{ m.thinking }}){% endif %}{{ m.content[:3] }}{% endfor %}",
    "{{ messages.append(1) }}",
    "{{ messages[0].__class__.__mro__ }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "{{ namespace(_inner=1) }}",
    "{{ messages[9].content }}",
    "{% for %}",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TURNS = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXTS},
    optional={"reasoning": TEXTS | st.none(), "name": st.none() | st.integers(), "more": st.lists(st.floats(0, 1))},
)


def ours(theirs: Any) -> FastTokenizer:
    facts = facts_of(theirs)
    assert facts is not None
    return FastTokenizer(facts, lambda: theirs)


OURS = {name: ours(theirs) for name, theirs in THEIRS.items()}


@pytest.mark.parametrize("name", THEIRS)
@given(
    text=TEXTS | st.lists(st.sampled_from(["<|end|>", " ", "<|user|>", "x", "\n"])).map("".join), special=st.booleans()
)
@settings(max_examples=60)
def test_texts_are_the_same_tokens_and_tokens_the_same_text(name: str, text: str, special: bool) -> None:
    mine, theirs = OURS[name], THEIRS[name]
    ids = mine.encode(text, add_special_tokens=special)
    assert ids == theirs.encode(text, add_special_tokens=special)
    found = mine(text, add_special_tokens=special, return_offsets_mapping=True)
    wanted = theirs(text, add_special_tokens=special, return_offsets_mapping=True)
    assert [found[key] for key in ("input_ids", "offset_mapping")] == [
        wanted[key] for key in ("input_ids", "offset_mapping")
    ]
    for skip in (True, False):
        assert mine.decode(ids, skip_special_tokens=skip) == theirs.decode(ids, skip_special_tokens=skip)
    assert mine.convert_ids_to_tokens(ids) == theirs.convert_ids_to_tokens(ids)


@pytest.mark.parametrize("name", THEIRS)
def test_what_else_is_asked_of_it_is_the_same(name: str) -> None:
    mine, theirs = OURS[name], THEIRS[name]
    for attribute in (
        "all_special_tokens",
        "all_special_ids",
        "eos_token_id",
        "pad_token_id",
        "chat_template",
        "is_fast",
    ):
        assert getattr(mine, attribute) == getattr(theirs, attribute), attribute
    assert (len(mine), mine.get_vocab()) == (len(theirs), theirs.get_vocab())
    assert {i: str(t) for i, t in mine.added_tokens_decoder.items()} == {
        i: str(t) for i, t in theirs.added_tokens_decoder.items()
    }


def test_what_it_has_not_is_asked_of_the_tokenizer_of_transformers() -> None:
    """Plug-ins are promised one of transformers."""
    mine, theirs = OURS["bundled"], THEIRS["bundled"]
    assert mine.tokenize("Ada pays") == theirs.tokenize("Ada pays")
    assert mine(["a", "bc"])["input_ids"] == theirs(["a", "bc"])["input_ids"]
    assert not hasattr(mine, "_no_such_method")
    with pytest.raises(AttributeError):
        _ = mine.no_such_method


def outcome(act: Any) -> Any:
    """Return the text, or the kind of refusal."""
    try:
        return act()
    except (SecurityError, UndefinedError) as error:
        return type(error)
    except TemplateError as error:
        return TemplateError, str(error) if "system" in str(error) else ""
    except (ValueError, TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize("template", TEMPLATES)
@given(turns=st.lists(TURNS, max_size=4), prompts=st.booleans(), stays_open=st.booleans(), tool=st.booleans())
@settings(max_examples=25)
def test_templates_show_conversations_as_transformers_does(
    template: str, turns: list[dict[str, Any]], prompts: bool, stays_open: bool, tool: bool
) -> None:
    theirs = THEIRS["bundled"]
    asked = {
        "add_generation_prompt": prompts,
        "continue_final_message": stays_open,
        "tools": [{"type": "function", "function": {"name": "f"}}] if tool else None,
        "mood": ("calm", {"deep": 1}),
    }
    wanted = outcome(lambda: theirs.apply_chat_template(turns, tokenize=False, chat_template=template, **asked))
    assert outcome(lambda: render(template, turns, **{**theirs.special_tokens_map, **asked})) == wanted


def test_a_template_sees_values_without_their_classes() -> None:
    class Loud(str):
        def shout(self) -> str:
            return self.upper()

    with pytest.raises(UndefinedError):
        render("{{ messages[0].content.shout() }}", [{"role": "user", "content": Loud("hush")}])
