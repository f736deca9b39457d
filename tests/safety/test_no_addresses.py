"""Numbers that have the shape of an address, and are none: sections, versions, drawings, social security areas."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.safety import MatchPolicy, MatchRail, compile_pii, find_all
from tests.safety.driving import by_character, run

PII = compile_pii()
octets = st.lists(st.integers(0, 255), min_size=4, max_size=4)
small = st.lists(st.integers(1, 31), min_size=4, max_size=4)
BEFORE_VERSIONS = [
    *("version ", "Version: ", "v", "ver. ", '"version": "', "<version>", "FileVersion=", "release ", "build "),
    *("section ", "Section ", "see sec. ", "§ ", "§§", "chapter ", "Table ", "Figure no. ", "clause ", "kernel "),
    *("requests==", "jinja2>=", "upgraded to ", "bump libfoo from 1.2.3.4 to ", "Chrome/", "firmware "),
]
BEFORE_HOSTS = ["ip ", "IP address: ", "ping ", "http://", "ssh root@", "the server at ", "gateway=", "from host "]


def found(text: str) -> list[tuple[str, str]]:
    return [(m.label, text[m.start : m.end]) for m in find_all(PII, text)]


def dotted(parts: list[int]) -> str:
    return ".".join(map(str, parts))


@given(octets, st.sampled_from(BEFORE_VERSIONS))
def test_what_is_called_a_version_or_a_section_is_no_address(parts: list[int], before: str) -> None:
    assert found(f"It says {before}{dotted(parts)} here.") == []


@given(
    small,
    st.sampled_from(["", "## ", "See ", "as in ", "(", "1.2.3.4, "]),
    st.sampled_from([" Overview", ", 2.3.4.2", ")"]),
)
def test_four_small_numbers_are_a_section(parts: list[int], before: str, behind: str) -> None:
    assert found(f"{before}{dotted(parts)}{behind}") == []


@given(octets, st.sampled_from(BEFORE_HOSTS))
def test_what_is_called_a_host_is_an_address(parts: list[int], before: str) -> None:
    host = dotted(parts)
    names_a_host = parts[0] not in (127, 255) and not host.endswith(".0.0.0") and host != "0.0.0.0"
    assert found(f"It is {before}{host} now") == ([("ip_address", host)] if names_a_host else [])


@pytest.mark.parametrize(
    "text", ["203.0.113.7", "10.0.0.5 answers", "198.51.100.23 to 192.0.2.1", "2001:db8::8a2e:370:7334"]
)
def test_other_addresses_are_found_without_a_word(text: str) -> None:
    assert {label for label, _ in found(text)} == {"ip_address"}


@given(octets, st.sampled_from(BEFORE_VERSIONS + BEFORE_HOSTS))
def test_every_cut_of_a_stream_says_the_same(parts: list[int], before: str) -> None:
    text = f"It says {before}{dotted(parts)} and ends"

    rail = MatchRail("pii", PII, MatchPolicy())
    assert run(by_character(text), rail)[0] == run([text], rail)[0]


def _path(drawn: random.Random) -> str:
    """Draw a path as optimisers of drawings write them: relative, without spaces before a minus."""
    numbers = lambda n: "".join(f"-{drawn.randrange(10, 100)}" for _ in range(n))  # noqa: E731
    return "".join(f"{drawn.randrange(10)}{drawn.choice('calmshv')}{numbers(drawn.randrange(1, 9))}" for _ in range(6))


def test_paths_of_drawings_hold_no_addresses() -> None:
    drawn = random.Random(1)
    for _ in range(500):
        path = f'<path d="M{drawn.randrange(99)} {_path(drawn)}z"/>'
        assert found(path) == [], path


@pytest.mark.parametrize("value", ["00-1a-2b-3c-4d-5e", "00:11:22:33:44:55", "A0-B1-C2-D3-E4-F5"])
def test_mac_addresses_are_found(value: str) -> None:
    assert found(f"It is {value} here") == [("mac_address", value)]


@pytest.mark.parametrize("text", ["ff:ff:ff:ff:ff:ff", "device 00:00:00:00:00:00", "FF:FF:ff:ff:ff:ff"])
def test_six_groups_alike_name_no_device(text: str) -> None:
    assert found(text) == []


def test_a_mac_address_that_may_be_a_path_needs_a_word() -> None:
    assert found("physical address: 10-20-30-40-50-60") == [("mac_address", "10-20-30-40-50-60")]
    assert found("it is 10-20-30-40-50-60") == []


@given(
    st.sampled_from(["000", "666"]) | st.integers(900, 999).map(str),
    st.integers(0, 49),
    st.integers(0, 9999),
    st.sampled_from(["", "SSN ", "call ", "text ", "phone: ", "social security number "]),
    st.sampled_from(["", ", office", " fax"]),
)
def test_areas_that_were_never_issued_are_no_numbers_of_anyone(
    area: str, group: int, serial: int, before: str, behind: str
) -> None:
    """Groups from 50 on behind a 9 are taxpayers' (`us_itin`)."""
    assert found(f"So {before}{area}-{group:02d}-{serial:04d}{behind}") == []


def released(text: str) -> str:
    return run(by_character(text), MatchRail("pii", PII, MatchPolicy()))[0]


LISTS = [
    "image_mean = [0.48145466, 0.4578275, 0.40821073]",
    "[0.7931,0.7931,0.7931]",
    "0.540302, -0.841471, -0.540302, 0.841471, 0.540302",
    "[20.0855, 20.0855, 20.0855, 20.0855]",
]
NUMBERS = [
    "Acme Mobile, Inc. 2017-2022",
    "as defined in clause 252.227-7013 (c)",
    "use Text::Wrap 98.112902",
    "exponent bits: 11111111110",
    "1,234,567,890 or 12,345.67",
    "M1 2l3.07c4.12 3.1.73.31 16.9-2.3",
    "c1.2-.07-.003-1.185-2.395 28.8z",
]


@pytest.mark.parametrize("text", [*LISTS, *NUMBERS])
def test_numbers_of_programs_and_manuals_are_nobodys(text: str) -> None:
    assert found(text) == []
    assert released(text) == text


@pytest.mark.parametrize("groups", [9, 16, 20, 32])
def test_a_fingerprint_is_no_address_of_a_device_or_host(groups: int) -> None:
    drawn = random.Random(groups)
    text = ":".join(f"{drawn.randrange(256):02X}" for _ in range(groups))
    assert found(f"SHA {text}") == []
    assert released(f"'{text}'") == f"'{text}'"


@pytest.mark.parametrize("behind", [":Down", ":8080", ": eth0", ":", ":ethernet", ", ff", ""])
def test_what_follows_a_device_does_not_hide_it(behind: str) -> None:
    assert found(f"see 00:1B:44:11:3A:B7{behind}") == [("mac_address", "00:1B:44:11:3A:B7")]


@pytest.mark.parametrize("behind", [", 520.5", ",12", ", 0.5", " and", ", x"])
def test_what_follows_a_place_does_not_hide_it(behind: str) -> None:
    assert found(f"7,48.1371, 11.5754{behind}") == [("coordinates", "48.1371, 11.5754")]


@pytest.mark.parametrize(
    "row", ["17,{},42", "{},42", "17,{}", "[17,{},42]", "2024,{},", '"a",{},0.5', "1;{};2", "7\t{}\t2"]
)
@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("credit_card", "4111111111111111"),
        ("phone", "415-555-0132"),
        ("us_ssn", "123-45-6789"),
        ("ip_address", "203.0.113.7"),
        ("pl_pesel", "44051401359"),
        ("es_dni", "12345678Z"),
    ],
)
def test_a_column_beside_numbers_is_found(row: str, label: str, value: str) -> None:
    text = row.format(value)
    assert found(text) == [(label, value)]
    assert value not in released(text)
