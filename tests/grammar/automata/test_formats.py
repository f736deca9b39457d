"""Format automata: never a string that an independent validator refuses, and nearly all that people write."""

from __future__ import annotations

import datetime
import ipaddress
import random
import uuid
from collections import defaultdict

import jsonschema_rs
import pytest

from sluicegate.grammar.automata import FORMAT_NAMES, CharDfa, format_dfa
from sluicegate.grammar.automata.patterns.parser import parse
from sluicegate.plugins.errors import UnsupportedGrammar

_SPECIFIED = sorted(FORMAT_NAMES - {"ip-address", "host-name", "uriref"})

_VALID = {
    "date": ["2024-02-29", "2000-02-29", "1999-12-31", "0001-01-01", "0004-02-29"],
    "time": ["12:00:00Z", "23:59:60z", "12:00:00.123+05:30", "15:59:60-08:00", "01:29:60.5+01:30"],
    "date-time": ["2026-11-21T07:31:00Z", "1990-12-31t15:59:59.9-08:00", "1998-12-31T23:59:60Z"],
    "duration": ["P1Y2M3DT4H5M6S", "P3W", "PT36H", "P4DT12H", "PT31536000S", "P9999Y999999M9999999DT99999H999999M9S"],
    "email": ["a@b.example", "first.last+tag@sub.domain.org", '"joe bloggs"@x.y', "joe@[127.0.0.1]"],
    "idn-email": ["실례@실례.테스트", "a@b.c", "jürgen@müller.de"],
    "hostname": ["www.example.com", "a", "1host", "a-b.c", "x" * 63 + ".org", ".".join(["label"] * 12)],
    "idn-hostname": ["실례.테스트", "例え.jp", "müller.de", "straße.de", "www.example.com"],
    "ipv4": ["0.0.0.0", "192.168.1.255"],
    "ipv6": ["::", "::1", "2001:db8::ff00:42:8329", "1:2:3:4:5:6:7:8", "::ffff:192.0.2.1", "1::8", "fe80::1:2:3"],
    "uri": ["https://user@example.com:8080/a/b;c?q=%20#f", "mailto:a@b.c", "urn:isbn:0451450523", "http://[::1]/"],
    "uri-reference": ["", "/a", "a/b?x", "#f", "//host/p", "../up", "http://x"],
    "iri": ["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://[2001:db8::1]"],
    "iri-reference": ["/ƒøø", "#ƒ", ""],
    "uri-template": ["http://x/{user}/{?q,lang*}{#f:30}", "{+path}/it's", ""],
    "uuid": ["2EB8AA08-aa98-11ea-B4Aa-73B441D16380"],
    "json-pointer": ["", "/a/~0b~1/ü", "/"],
    "relative-json-pointer": ["0", "1/a", "12#"],
    "regex": ["^[a-z]+$", r"([abc])+\s+$", r"^\d{3}-\w*|x?$", r"(?=a)\p{L}", "a{3,9}", "(ab){2,12}?"],
}
_NOT_COVERED = {
    "date": ["0000-01-01", "0000-02-29"],
    "time": ["12:00:00.1234567890Z", "23:59:60.1234Z"],
    "date-time": ["0000-01-01T00:00:00Z", f"2026-11-21T07:31:00.{'7' * 40}Z"],
    "duration": ["P10000Y", f"P{'7' * 40}D", f"PT{'7' * 40}S", "PT1234567M"],
    "relative-json-pointer": ["1234567890#"],
}
"""Valid, but nothing that programs hold."""
_INVALID = {
    "date": ["2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "24-01-01"],
    "time": ["24:00:00Z", "12:00:60Z", "12:00:00", "23:59:60+01:00", "12:00:00+24:00"],
    "date-time": ["2026-11-21 07:31:00Z", "2026-11-21T07:31:00"],
    "duration": ["P", "PT", "P1D1Y", "P1W1D", "1Y"],
    "email": ["a", "a..b@c", ".a@b", "a@-b", "a@b@c"],
    "idn-email": ["a", "@b"],
    "hostname": ["-a", "a-", "a..b", "x" * 64, "a_b", "", "xn--X"],
    "idn-hostname": ["-a", "〮실례", "aa--b", "‌x"],
    "ipv4": ["256.0.0.1", "1.2.3", "01.2.3.4"],
    "ipv6": [":::", "1:2:3:4:5:6:7:8:9", "12345::", "::1::", "::256.0.0.1"],
    "uri": ["//x", "a", "http://a b", "http://[::1", ":x", "http://x/%zz"],
    "uri-reference": ["a b", "1:2:", "\\"],
    "iri": ["ƒøø", "http:// x"],
    "iri-reference": ["a b", "<x>"],
    "uri-template": ["{", "{a", "a b", "{a:}"],
    "uuid": ["2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380"],
    "json-pointer": ["a", "/~", "/~2", "#"],
    "relative-json-pointer": ["", "01", "-1", "1a"],
    "regex": ["(", "[", "*", "a{5,3}", "a{20,10}", "[z-a]", "a**", "((a)", "(a))", "(?a)", "(?=a)*", "a{200,199}"],
}


def walks(dfa: CharDfa, count: int, choose: random.Random) -> list[str]:
    """Find texts by walking at random, the ends of every range of characters as likely as the middle."""
    table = dfa.table
    ranges = defaultdict(list)
    for low, end, c in zip(table.starts, [*table.starts[1:], 0x110000], table.classes, strict=True):
        ranges[c].append((low, end - 1))
    return [_walk(dfa, ranges, choose) for _ in range(count)]


def _walk(dfa: CharDfa, ranges: dict[int, list[tuple[int, int]]], choose: random.Random) -> str:
    state, out, enough, best = dfa.start, "", choose.choice((5, 10, 30, 100)), dfa.shortest() or ""
    while len(out) < 300:
        row = dfa.table.rows[state]
        if dfa.table.accepting[state]:
            best = out
            if not row or len(out) >= enough or choose.random() < 0.15:
                break
        c, state = choose.choice(list(row.items()))
        low, high = choose.choice(ranges[c])
        out += chr(choose.choice((low, high, choose.randint(low, high))))
    return best


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in _NOT_COVERED.items() for text in texts])
def test_rows_of_digits_end_and_values_are_those_that_programs_hold(name: str, text: str) -> None:
    """A model that repeats a digit wrote durations of hundreds of them, which no library reads."""
    assert jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid(text)
    assert not format_dfa(name).accepts(text)


@pytest.mark.parametrize("name", _SPECIFIED)
def test_no_text_of_a_format_is_refused_by_an_independent_validator(name: str) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "format": name}
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    assert any(not validator.is_valid(text) for text in _INVALID[name]), "the validator does not check this format"
    samples = walks(format_dfa(name), 1500, random.Random(7))
    assert [text for text in samples if not validator.is_valid(text)] == []


@pytest.mark.parametrize("name", _SPECIFIED)
def test_what_people_write_is_accepted_and_what_is_wrong_is_not(name: str) -> None:
    dfa = format_dfa(name)
    assert [text for text in _VALID[name] if not dfa.accepts(text)] == []
    assert [text for text in _INVALID[name] if dfa.accepts(text)] == []


def test_dates_are_exactly_those_of_the_calendar() -> None:
    dfa = format_dfa("date")
    for year in (1, 4, 100, 400, 1900, 1999, 2000, 2023, 2024, 2100, 9999):
        for month in range(14):
            for day in range(33):
                try:
                    datetime.date(year, month, day)
                    real = True
                except ValueError:
                    real = False
                assert dfa.accepts(f"{year:04}-{month:02}-{day:02}") == real


def test_addresses_and_uuids_agree_with_the_standard_library() -> None:
    choose = random.Random(3)
    ipv6, ipv4, uuids = (format_dfa(name) for name in ("ipv6", "ipv4", "uuid"))
    for _ in range(300):
        text = "".join(choose.choice(["1", "ab", ":", "::", "0", ":", "c:"]) for _ in range(choose.randint(1, 16)))
        assert ipv6.accepts(text) == _parses(ipaddress.IPv6Address, text), text
        dotted = ".".join(choose.choice(["0", "1", "25", "255", "256", "00"]) for _ in range(choose.choice((3, 4, 5))))
        assert ipv4.accepts(dotted) == _parses(ipaddress.IPv4Address, dotted), dotted
        assert uuids.accepts(str(uuid.UUID(int=choose.getrandbits(128))))


def _parses(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def test_old_names_mean_the_same_and_unknown_ones_are_refused() -> None:
    assert format_dfa("ip-address") == format_dfa("ipv4")
    assert format_dfa("host-name") == format_dfa("hostname")
    with pytest.raises(UnsupportedGrammar, match="date-time"):
        format_dfa("datum")


@pytest.mark.parametrize(
    "text",
    [
        "[\"']+",
        '[^"\\\\]*',
        "^[a-f0-9]{8,16}$",
        "[-a]",
        "[a-z-]",
        r"^\d{1,3}(\.\d{1,3}){3}$",
        "^[éè]+ß日本$",
        "[$<>{}=!]",
        "((a|b)c)+|[c-f]?",
        r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$",
        "(a(b(c){2,}|)?)*",
        r"(?<=\B)\p{Lo}(?<!a)",
        "()|(?:)|^$|a{120,200}",
        "a\n|\t`~",
    ],
)
def test_ordinary_expressions_are_of_the_format_regex(text: str) -> None:
    """Counts, quotes in classes, ranges of part of the letters, and letters beyond ASCII."""
    assert format_dfa("regex").accepts(text)


def test_what_the_format_regex_allows_is_an_expression_of_ecma_262() -> None:
    for text in walks(format_dfa("regex"), 300, random.Random(7)):
        parse(text, "ecma")
