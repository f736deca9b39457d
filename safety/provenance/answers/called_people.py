"""Know whom a text calls by one word of a name: `Yusuf` or `Mr Demir` is Yusuf Demir.

A word counts with its capital (`bill` is no Bill), in its cases in Cyrillic and Greek, and where no other name stands
before or behind it.
Not covered: nicknames; a verb with a capital that is also a name (`Mark it as read`).
"""

from __future__ import annotations

import re

from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.safety.provenance.answers.directories import first_and_last
from sluicegate.safety.provenance.inflection import forms_of

MIN_WORD_CHARS = 3
"""Letters of a word by which somebody is called; one less in Chinese and Japanese."""
_IDEOGRAPHIC = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")
_TITLED = (
    r"(?:\b(?:(?:Mr|Mrs|Ms|Dr|Prof|Dott|Sig|Sra?|Mme|M|Frau|Herrn?|Hr|Fr|Pani?|Señora?)\.? )+"
    r"|[a-zß-öø-ÿа-яά-ώ][\w'’-]*,? )"
)
"""What stands before the last name of somebody whose first is not said."""
_NO_NAME = r"(?:['’]s\b)?(?![\w@-]|\.\w| (?!I\b)[A-ZÀ-ÞА-ЯΆ-Ώ])"
_NO_NAME_IDEOGRAPHIC = "(?=さん|様|さま|君|くん|先生|氏|部長|課長|社長|经理|總|总|老师|님|씨|\\W|$|[぀-ゟ])"


class CalledPeople:
    """The people that one text calls by a word."""

    def __init__(self, text: str) -> None:
        self._raw = text

    def by_words_of(self, name: str) -> list[str]:
        """Return which of the first and last word of a name somebody is called by: `Yusuf` or `Mr Demir` of Yusuf
        Demir. With another name before or behind it the word is somebody else's."""
        if name.isascii() and name.isalpha():
            return [name] if self._may_have(name) and self._stands_alone(f"(?i:{name})", "") else []
        first, *last = first_and_last(name) or ("",)
        called = [first] if self._calls_alone(first, before="") else []
        return called + [word for word in last if self._calls_alone(word, before=_TITLED)]

    def _may_have(self, word: str) -> bool:
        """Return whether the beginning of a word of usual length stands here; it may be inflected behind that."""
        least = MIN_WORD_CHARS - bool(_IDEOGRAPHIC.search(word))
        return len(word) >= least and word[:least].lower() in self._lower

    @cached_property
    def _lower(self) -> str:
        return self._raw.lower()

    def _calls_alone(self, word: str, *, before: str) -> bool:
        is_ideographic = _IDEOGRAPHIC.search(word) is not None
        if not self._may_have(word) or not word.isalpha() or word.islower():
            return False
        if (forms := forms_of(word.lower())) is not None and word[0].isupper():
            return self._stands_alone(f"(?:{re.escape(word)}|{word[0]}{forms})", before)
        return self._stands_alone(re.escape(word), before if word[0].isupper() else "", is_ideographic=is_ideographic)

    def _stands_alone(self, word: str, before: str, *, is_ideographic: bool = False) -> bool:
        behind = _NO_NAME_IDEOGRAPHIC if is_ideographic else _NO_NAME
        begins = "(?<![\u3400-\u9fff])" if is_ideographic else r"(?<![\w@.-])"
        return re.search(f"{begins}{before}{word}{behind}", self._raw) is not None
