"""Chat templates that ask for more than a machine has: each is a typed error before memory or time is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jinja2
import pytest
from transformers import AutoTokenizer

from sluicegate.engine.text.chat_rendering import refuse_malformed, render
from sluicegate.engine.text.prompt import render_chat
from sluicegate.engine.text.template_bounds import EndlessTemplate
from sluicegate.plugins import ModelLoadError

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"
TURNS: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
DOUBLE = "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set n.s = OF %}{% endfor %}{{ n.s|length }}"
TWICE = "{% for i in range(9999) %}{% for j in range(9999) %}OF{% endfor %}{% endfor %}"
LONG = "{% set long = 'a' * 100000 %}"
ENDLESS = {
    "loop": "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
    "loop that writes nothing": TWICE.replace("OF", "{% set a = j %}"),
    "loop behind a name of ours": "{% set step = dict %}" + TWICE.replace("OF", ""),
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    "product": "{{ 'x' * 10**10 }}",
    "product of a list": "{{ ([1] * 10**10)|length }}",
    "power": "{{ 7 ** (10**9) }}",
    "joined": DOUBLE.replace("OF", "n.s ~ n.s"),
    "sum": DOUBLE.replace("OF", "n.s + n.s"),
    "formatted": DOUBLE.replace("OF", "'%s%s' % (n.s, n.s)"),
    "formatted by a filter": DOUBLE.replace("OF", "'%s%s'|format(n.s, n.s)"),
    "formatted by braces": DOUBLE.replace("OF", "'{0}{a}'.format(n.s, a=n.s)"),
    "formatted by a mapping": DOUBLE.replace("OF", "'%(a)s%(a)s' % {'a': n.s}"),
    "square": "{% set n = namespace(i=9) %}{% for i in range(99) %}{% set n.i = n.i * n.i %}{% endfor %}{{ n.i }}",
    "translated": LONG + "{{ long.translate({97: long}) }}",
    "bytes": "{{ 'a'.encode().ljust(10**10) }}{{ (1).to_bytes(10**10, 'big') }}",
    "by a method": DOUBLE.replace("OF", "n.s.replace('x', 'xx')"),
    "by a filter": DOUBLE.replace("OF", "n.s|replace('x', 'xx')"),
    "ljust": "{{ 'a'.ljust(10**10) }}",
    "center": "{{ 'a'|center(10**10) }}",
    "wide field": "{{ '%10000000000d' % 1 }}",
    "wide field by a filter": "{{ '%10000000000d'|format(1) }}",
    "field as wide as a value": "{{ '%*d' % (10**10, 1) }}",
    "braces": "{{ '{:>10000000000}'.format(1) }}",
    "braces as wide as a value": "{{ '{:>{w}}'.format(1, w=10**10) }}",
    "replaced": LONG + "{{ long|replace('a', long) }}",
    "replaced by a method": LONG + "{{ long.replace('a', long) }}",
    "between items": LONG + "{{ range(100000)|list|join(long) }}",
    "indent": "{{ ('a\n' * 1000)|indent(10**8) }}",
    "slices": "{{ [1]|slice(10**8)|list|length }}",
    "filled": "{{ [1]|batch(10**8, 0)|list|length }}",
    "spread JSON": "{{ [1]|tojson(indent=10**9) }}",
}


@pytest.fixture(autouse=True)
def fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a template without end be found in less time; no other template here takes so many."""
    monkeypatch.setattr("sluicegate.engine.text.template_bounds.MOST_STEPS", 20_000)


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS)
def test_what_a_template_asks_for_is_bounded(template: str) -> None:
    with pytest.raises(EndlessTemplate):
        render(template, TURNS)
    with pytest.raises(ModelLoadError, match="does not come to an end"):
        refuse_malformed(template, "folder")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ '**%s** %5d%%' % ('a', 3) }}", "**a**     3%"),
        ("{{ '{{\"a\": {}}} {:>4}'.format(1, 2) }}", '{"a": 1}    2'),
        ("{{ 'a\nb'|indent(4) }}", "a\n    b"),
        ("{{ ['a', 1]|join(', ') ~ '!' ~ none ~ 2.0 }}", "a, 1!None2.0"),
        ("{{ 'a' * 3 + 'b' }}{{ 2 ** 10 }}{{ [1] + [2] }}", "aaab1024[1, 2]"),
        ("{% for i in range(3) %}{{ loop.index }}{% if loop.last %}.{% endif %}{% else %}no{% endfor %}", "123."),
        ("{% for i in [] %}{{ i }}{% else %}none{% endfor %}", "none"),
        ("{% for a in [[1], 2] recursive %}{{ loop(a) if a is sequence else a }}{% endfor %}", "12"),
        (
            "{% macro f(a, b=2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{% call f(1) %}c{% endcall %}",
            "12c",
        ),
        ("{{ messages|tojson(indent=2) }}", json.dumps(TURNS, indent=2)),
    ],
)
def test_what_templates_do_else_is_as_in_jinja(template: str, text: str) -> None:
    assert render(template, TURNS) == text
    refuse_malformed(template, "folder")


def test_a_long_conversation_renders() -> None:
    turns = [{"role": "user", "content": "word " * 2000}] * 800
    template = "{% for m in messages %}{{ '<' ~ m.role ~ '>' + m.content }}{% endfor %}"
    assert len(render(template, turns)) == 800 * (6 + 10_000)


def test_a_template_that_one_short_message_does_not_satisfy_is_no_reason_to_refuse_a_checkpoint() -> None:
    refuse_malformed({"default": "{{ raise_exception('roles must alternate') }}", "tool_use": "{{ 1 / 0 }}"}, "folder")


def test_a_tokenizer_of_transformers_renders_within_the_same_bounds(tmp_path: Path) -> None:
    """Its own renderer knows none, and a checkpoint is served by it at the first load."""
    for path in BUNDLED.glob("*token*"):
        shutil.copy(path, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    same = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    tokenizer.chat_template = same
    assert render_chat(tokenizer, TURNS) == tokenizer.apply_chat_template(
        TURNS, tokenize=False, add_generation_prompt=True
    )
    tokenizer.chat_template = ENDLESS["product"]
    with pytest.raises(jinja2.TemplateError, match="33554432 characters"):
        render_chat(tokenizer, TURNS)
