"""Compile each string `format` of JSON Schema, draft 4 to 2020-12, to an automaton.

Each accepts valid strings only, and nearly all of them. Not covered:

- `date`, `date-time`: the year 0, which most programs cannot hold.
- `time`, `date-time`: a leap second only in UTC or with an offset of whole or half hours, and parts of it of up to
  three digits; of other seconds of up to nine.
- `duration`: up to 9,999 years, a million months, weeks or minutes, ten million days, 100,000 hours, and a billion
  seconds: programs hold no more, and a weak model does not end a row of digits by itself.
- `relative-json-pointer`: a number of up to nine digits.
- `hostname` and all that contain one: up to three labels of 63 characters, or up to twelve of 20 (the true bound, 253
  in total, would cost some ten thousand states); no label with `--` in third place, which is reserved for `xn--`
  encodings.
- `idn-hostname`: besides ASCII, lower-case letters written left to right that normalisation leaves alone, in labels
  of up to 12 characters; no label mixes in `xn--` encodings; nothing that needs a contextual rule.
- `email`, `idn-email`: local part of up to 64 characters, without escapes where it is quoted; host names as above.
- `regex`: no back references and no names of groups, which nest up to three deep.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

from sluicegate.grammar.automata import charsets
from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.charsets import Ranges
from sluicegate.grammar.automata.regex_format import regex_format
from sluicegate.grammar.budget.meter import Budget
from sluicegate.plugins.errors import UnsupportedGrammar

_BUDGET = Budget(max_states=100_000, max_seconds=20.0)  # our own patterns: known to end

# Dates and times (RFC 3339)

_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_LEAP_YEAR = r"(\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"({_YEAR}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)
_PARTS = r"(\.\d{1,9})?"
_OFFSET = r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"


def _leap_seconds() -> str:
    """Return a pattern of `23:59:60` of UTC as clocks with an offset of whole or half hours show it."""
    forms = [r"23:59:60(\.\d{1,3})?[Zz]"]
    for offset in range(0, 24 * 60, 30):
        for sign, local in (("+", 23 * 60 + 59 + offset), ("-", 23 * 60 + 59 - offset)):
            hour, minute = divmod(local % (24 * 60), 60)
            forms.append(rf"{hour:02}:{minute:02}:60(\.\d{{1,3}})?[{sign}]{offset // 60:02}:{offset % 60:02}")
    return f"({'|'.join(forms)})"


_TIME = rf"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d{_PARTS}{_OFFSET}|{_leap_seconds()})"
_SECONDS = r"\d{1,9}S"
_MINUTES = rf"\d{{1,6}}M({_SECONDS})?"
_CLOCK = rf"T(\d{{1,5}}H({_MINUTES})?|{_MINUTES}|{_SECONDS})"
_DAYS = r"\d{1,7}D"
_MONTHS = rf"\d{{1,6}}M({_DAYS})?"
_DURATION = rf"P(\d{{1,6}}W|(\d{{1,4}}Y({_MONTHS})?|{_MONTHS}|{_DAYS})({_CLOCK})?|{_CLOCK})"

# Network names (RFC 1123, RFC 5321, RFC 4291)

_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"
_H16 = "[0-9A-Fa-f]{1,4}"
_LS32 = rf"({_H16}:{_H16}|{_IPV4})"


def _ipv6() -> str:
    """Return a pattern of RFC 3986, rule IPv6address: `before` groups, `::`, and at most 7 - `before` groups behind
    it."""
    full = rf"({_H16}:){{6}}{_LS32}"
    forms = [full]
    for behind in range(5, -1, -1):
        before = rf"(({_H16}:){{0,{4 - behind}}}{_H16})?" if behind < 5 else ""
        forms.append(rf"{before}::({_H16}:){{{behind}}}{_LS32}" if behind else rf"{before}::{_LS32}")
    forms.append(rf"(({_H16}:){{0,5}}{_H16})?::{_H16}")
    forms.append(rf"(({_H16}:){{0,6}}{_H16})?::")
    return "(" + "|".join(forms) + ")"


_IPV6 = _ipv6()


def _hosts(letters: str, edge: str, long: int = 63, short: int = 20) -> str:
    def label(size: int) -> str:
        return rf"({edge}({letters}{{0,{size - 2}}}{edge})?)"

    return rf"({label(long)}(\.{label(long)}){{0,2}}|{label(short)}(\.{label(short)}){{0,11}})"


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_HOST = _hosts("[A-Za-z0-9-]", "[A-Za-z0-9]")
_NO_RESERVED_LABEL = r"(^|[.@]).{2}--"

# Resource identifiers (RFC 3986, RFC 3987, RFC 6570)

_UCS = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 0xE))
    + r"\u{E1000}-\u{EFFFD}"
)
_PRIVATE = r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"
_SUB = "!$&'()*+,;="
_PCT = "%[0-9A-Fa-f]{2}"


def _identifier(ucs: str, private: str, reference: bool) -> str:
    unreserved = rf"A-Za-z0-9\-._~{ucs}"
    pchar = rf"([{unreserved}{_SUB}:@]|{_PCT})"
    no_colon = rf"([{unreserved}{_SUB}@]|{_PCT})"
    literal = rf"\[({_IPV6}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~{_SUB}:]+)\]"
    host = rf"({literal}|([{unreserved}{_SUB}]|{_PCT})*)"
    authority = rf"(([{unreserved}{_SUB}:]|{_PCT})*@)?{host}(:\d*)?"
    rooted = rf"//{authority}(/{pchar}*)*|/({pchar}+(/{pchar}*)*)?"
    tail = rf"(\?({pchar}|[/?{private}])*)?(#({pchar}|[/?])*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.\-]*:({rooted}|({pchar}+(/{pchar}*)*)?){tail}"
    return rf"({whole}|({rooted}|({no_colon}+(/{pchar}*)*)?){tail})" if reference else whole


_VARCHAR = rf"([A-Za-z0-9_]|{_PCT})"
_VARSPEC = rf"{_VARCHAR}(\.?{_VARCHAR})*(:[1-9]\d{{0,3}}|\*)?"
_TEMPLATE_LITERAL = rf"[!#$&'(-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]"
_URI_TEMPLATE = rf"({_TEMPLATE_LITERAL}|{_PCT}|\{{[+#./;?&]?{_VARSPEC}(,{_VARSPEC})*\}})*"

# The rest

_POINTER = r"(/([^~/]|~[01])*)*"
_UUID = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"


def _dfa(pattern: str) -> CharDfa:
    return CharDfa.from_pattern(pattern, anchored=True, budget=_BUDGET)


def _hostname() -> CharDfa:
    return _dfa(_HOST).difference(CharDfa.from_pattern(_NO_RESERVED_LABEL, budget=_BUDGET), budget=_BUDGET)


def _local_part(letter: str) -> CharDfa:
    return _dfa(rf"{letter}+(\.{letter}+)*").intersection(CharDfa.length_between(1, 64), budget=_BUDGET)


def _email() -> CharDfa:
    return _at(_local_part(_ATOM), format_dfa("hostname"))


def _idn_email() -> CharDfa:
    return _at(_local_part(rf"({_ATOM}|[{_UCS}])"), format_dfa("idn-hostname"))


def _at(local: CharDfa, host: CharDfa) -> CharDfa:
    quoted = _dfa(r'"[ !#-;=?-Z^-~]{1,62}"')  # no brackets: validators take `"x <y"@z` for a display name
    literal = _dfa(rf"\[({_IPV4}|IPv6:{_IPV6})\]")
    left = local.union(quoted, budget=_BUDGET).concat(_dfa("@"), budget=_BUDGET)
    return left.concat(host.union(literal, budget=_BUDGET), budget=_BUDGET)


def _idn_hostname() -> CharDfa:
    letters = "".join(rf"\u{{{low:x}}}-\u{{{high:x}}}" for low, high in _stable_letters())
    unicode_label = rf"[a-z0-9{letters}]([a-z0-9{letters}-]{{0,10}}[a-z0-9{letters}])?"
    whole = _dfa(rf"({unicode_label})(\.{unicode_label}){{0,3}}").union(_dfa(_HOST), budget=_BUDGET)
    return whole.difference(CharDfa.from_pattern(_NO_RESERVED_LABEL, budget=_BUDGET), budget=_BUDGET)


@lru_cache(maxsize=1)
def _stable_letters() -> Ranges:
    """Return the letters that RFC 5892 finds valid for being unchanged by NFKC and case folding, and its exceptions
    (`ß` is one of them); left to right only (RFC 5893)."""

    def stable(c: str) -> bool:
        return (
            unicodedata.category(c) in ("Ll", "Lo")
            and unicodedata.bidirectional(c) == "L"
            and unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", c).casefold()) == c
        )

    exceptions = ((0xDF, 0xDF), (0x3C2, 0x3C2), (0xF0B, 0xF0B), (0x3007, 0x3007))  # RFC 5892, 2.6, those for all places
    blocks = ((0xDF, 0x24F), (0x370, 0x52F), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x3041, 0x3096), (0x30A1, 0x30FA))
    letters = [(c, c) for low, high in blocks for c in range(low, high + 1) if stable(chr(c))]
    return charsets.union([*letters, *exceptions])


_BUILDERS: dict[str, Callable[[], CharDfa]] = {
    "date": lambda: _dfa(_DATE),
    "time": lambda: _dfa(_TIME),
    "date-time": lambda: _dfa(rf"{_DATE}[Tt]{_TIME}"),
    "duration": lambda: _dfa(_DURATION),
    "email": _email,
    "idn-email": _idn_email,
    "hostname": _hostname,
    "idn-hostname": _idn_hostname,
    "ipv4": lambda: _dfa(_IPV4),
    "ipv6": lambda: _dfa(_IPV6),
    "uri": lambda: _dfa(_identifier("", "", reference=False)),
    "uri-reference": lambda: _dfa(_identifier("", "", reference=True)),
    "iri": lambda: _dfa(_identifier(_UCS, _PRIVATE, reference=False)),
    "iri-reference": lambda: _dfa(_identifier(_UCS, _PRIVATE, reference=True)),
    "uri-template": lambda: _dfa(_URI_TEMPLATE),
    "uuid": lambda: _dfa(_UUID),
    "json-pointer": lambda: _dfa(_POINTER),
    "relative-json-pointer": lambda: _dfa(rf"(0|[1-9]\d{{0,8}})(#|{_POINTER})"),
    "regex": regex_format,
}
_OLD_NAMES = {"ip-address": "ipv4", "host-name": "hostname", "uriref": "uri-reference"}  # drafts 3 and 5

FORMAT_NAMES = frozenset(_BUILDERS) | frozenset(_OLD_NAMES)


@lru_cache(maxsize=64)
def format_dfa(name: str) -> CharDfa:
    """Return the automaton of a format, built once. Raises `UnsupportedGrammar` for a name not in `FORMAT_NAMES`."""
    builder = _BUILDERS.get(_OLD_NAMES.get(name, name))
    if builder is None:
        raise UnsupportedGrammar(f"unknown format {name!r}; known are {', '.join(sorted(FORMAT_NAMES))}")
    return builder()
