"""What the fact guard compares of each text, word for word: sentences of the benchmark and corners of its rules."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cache import pairs
from sluicegate.cache.semantic import signature
from tests.golden import assert_golden

CORNERS = [
    "World War I ended in 1918.", "Can I go? I can.", "I", "i", "Is World War I over", "So I said. I left", "Chapter I",
    "It weighs 5 M. or 5 m?", "Set 20 C or 20 c", "5 kilo", "5 kilos or 12 Feet", "5kg", "Is W a letter?", "letter w",
    "a word Like This", "May we meet in May?", "may we meet? May", "the Polish polish polish Polish", "Turkey turkey",
    "US us US.", "It is for us.", "March on 5 March", "Do you march in March", "$5 fee", "5 $ fee", "costs €10.", "£",
    "€10", "fee $5", "$ and 5", "is $5 more than €5", "10% of 10 percent", "unsafe", "un", "until", "under", "disable",
    "dis", "distal", "nonstop", "non", "anti-war", "anti-", "Who's there?", "It's Ann's dog's bone", "Ann's",
    "where's Bob", "don't won't can't", "He'll and we've", "the dogs' bone", "What's Ann's?", "Bob's car is Ann's car.",
    "'quoted' text \"X\"", "it's 'quoted' isn't it", "say `x` and “y” or «z»", "\"a\" \"b\" \"a\"",
    "1,000,000 or 1,000", "1,00 or 10,0000", "C++ and C", "5! and 5 !", "5!", "wow!", "really?! ...",
    "10² is not 102", "−3 - 3 – 3 — 3",
    "organise organised organises organising", "promise rise wise advised", "colour color grey gray", "IBM iPhone NASA",
    "/usr/bin and a_b x@y.z", "a.b.c 1.5 .5 5.", "Please", "please", "Hi", "Hi Ann, please tell me the time. Thanks!",
    "Could you please tell me who is Ann?", "Kindly tell me, thank you", "hello hello", "today, is it open?",
    "In Paris, who is mayor?", "one two three twelve hundred", "two hundred thousand", "a dozen", "half past two",
    "the the the", "The End", "no not never", "up down before after", "> < = + * /", "🙂 or 🙃", "_ under_score _x_",
    "Ann Bob, Carl. Dora! eve? Fay", "Tell me. Who is Ann", "What is May", "is it may", "x < 5 m", "5 5 5 m m",
    "twenty-one", "state-of-the-art", "e.g. this i.e. that", "A. B. C.", "5 mins", "5 minutes", "12 h", "12 Hours",
    "12 abcdefgh x", "12 abcdefghi x", "x\ty\nz", "a\x00b", "A  B", "the cat", "cat the", "thecat", "THE cat",
]  # fmt: skip


def test_signatures_stay_as_they_were_agreed_on() -> None:
    texts = [*sorted({text for pair in pairs() for text in (pair.one, pair.other)})[::3], *CORNERS]
    found = {text: {guard: signature(text, guard) for guard in ("words", "facts")} for text in texts}
    assert_golden(Path(__file__).parent / "golden" / "signatures.jsonl", found)
