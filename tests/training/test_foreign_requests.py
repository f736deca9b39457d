"""Prompts that are read out of packages to measure the detector on: what is taken, and what a blank becomes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.foreign_requests import SENTENCE, constants, filled, jailbreaks, prompts, tasks


def test_blanks_of_every_notation_are_filled() -> None:
    assert filled("{% if x %}Read: {{ text }}{% endif %}\nThen {answer}.") == (
        f"Read: {SENTENCE}\nThen the ferry leaves at nine."
    )
    assert filled("Pick one. {{ choices | join }}").endswith("A. at home B. in the park C. at work")


def test_each_wording_of_a_task_is_read_once_with_its_family(tmp_path: Path) -> None:
    folder = tmp_path / "lm_eval" / "tasks" / "towns"
    folder.mkdir(parents=True)
    order = "Name the largest town that the following text speaks of."
    (folder / "one.yaml").write_text(f'task: one\ndescription: "{order}"\ndoc_to_text: !function utils.text\n')
    two = f"task: two\ndescription: {order}\ndoc_to_text: |\n  Which river of the country is the\n  longest"
    (folder / "two.yaml").write_text(two)
    found = list(tasks(tmp_path))
    assert found[0] == ("towns", order)
    assert [" ".join(text.split()) for _, text in found[1:]] == ["Which river of the country is the longest"]


def test_only_what_is_named_a_prompt_is_read_from_source(tmp_path: Path) -> None:
    text = "You are given a list of towns and must say which of them lies farthest to the north."
    (tmp_path / "module.py").write_text(f'TOWN_PROMPT = """{text}"""\nDOCUMENTATION = """{text} Or so."""\n')
    assert constants(tmp_path) == [text]


def test_jailbreaks_of_the_wild_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "datasets" / "jailbreak" / "templates"
    (folder / "in_the_wild").mkdir(parents=True)
    (folder / "a.yaml").write_text("name: a\nvalue: |\n  Answer as a free machine. {{ prompt }}\n")
    (folder / "in_the_wild" / "b.yaml").write_text("name: b\nvalue: Other.\n")
    assert jailbreaks(tmp_path) == [f"Answer as a free machine. {SENTENCE}"]


def test_prompts_are_read_from_arguments_and_tables_but_not_from_files_about_attacks(tmp_path: Path) -> None:
    """Of those that begin alike one is kept, and a template's blanks are filled."""
    one = "You are given two letters and must say which of them was written by the older sister, and why."
    two = "请根据下面的短文判断哪一封信是姐姐写的，并且说明理由。"
    source = (
        f'ask(prompt="{one}", note="{one} Note.")\nTABLE = [dict(role="a", prompt="{one}"), {{"prompt": "{two}"}}]\n'
    )
    (tmp_path / "letters.py").write_text(source, "utf-8")
    (tmp_path / "jailbreaks.py").write_text('PROMPT = "' + one.replace("sister", "brother") + '"\n')
    assert sorted(prompts(tmp_path)) == sorted([one, two])
