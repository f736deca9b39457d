"""Numbers with a check: published examples pass, and so do no others that differ in one digit.

Examples are those of the issuers, of their standards or of the encyclopaedias that explain them; nobody's own.
"""

from __future__ import annotations

import ipaddress

import pytest

from sluicegate.safety.rules import checks
from sluicegate.safety.rules import national_ids as ids

EXAMPLES = {
    ids.es_dni: ("12345678Z", "12345678z", "X1234567L", "Y1234567X", "Z1234567R", "X-1234567-L"),
    ids.fr_nir: ("255081416802538", "2 55 08 14 168 025 38"),
    ids.be_national: ("85.07.30-033.28", "17.07.30-033.84"),
    ids.it_fiscal: ("RSSMRA85T10A562S", "rssmra85t10a562s", "RCCMNL83S18D969H"),
    ids.ch_ahv: ("756.9217.0769.85", "7569217076985"),
    ids.se_personal: ("811218-9876", "701063-2391"),
    ids.fi_personal: ("131052-308T", "131052A308T", "131052a308t"),
    ids.no_personal: ("15108695088", "151086 95088"),
    ids.pl_pesel: ("44051401359", "02070803628"),
    ids.br_cpf: ("529.982.247-25", "39053344705"),
    ids.in_aadhaar: ("2341 2341 2346", "234123412346"),
    ids.ca_sin: ("130 692 544", "123-456-782"),
    ids.cn_resident: ("11010519491231002X", "11010519491231002x", "360426199101010071"),
    ids.sg_nric: ("S1234567D", "s1234567d", "F1234567N", "T1234567J", "G1234567X", "M1234567K"),
    ids.tr_identity: ("10000000146", "17291716060"),
    ids.nl_bsn: ("111222333", "1112.22.333"),
    ids.de_tax: ("86095742719", "36574261809"),
    ids.gb_nhs: ("9434765919", "943 476 5870"),
    checks.credit_card: ("4111 1111 1111 1111", "5105105105105100", "378282246310005", "6011111111111117"),
    checks.iban: ("GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "NO9386011117947"),
    checks.base58_address: ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy"),
    checks.bech32_address: (
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
    ),
}
CASES = [
    pytest.param(check, number, id=f"{check.__name__}-{number}") for check, all_ in EXAMPLES.items() for number in all_
]


@pytest.mark.parametrize(("check", "number"), CASES)
def test_an_example_passes(check: object, number: str) -> None:
    assert callable(check)
    assert check(number) is True or check(number) == 1


WEAK = {ids.br_cpf: 2, ids.be_national: 1, ids.es_dni: 0, ids.gb_nhs: 0, ids.fr_nir: 0}
"""Changes of one digit that still pass, of one number: where 10 counts as 0, or either century may fit."""


@pytest.mark.parametrize(("check", "number"), CASES)
def test_one_digit_changed_does_not_pass(check: object, number: str) -> None:
    assert callable(check)
    places = [place for place, char in enumerate(number) if char.isdigit()]
    if check is checks.iban:
        places = places[2:]  # another check digit may be another country's length, no more
    others = "123456789" if check is checks.base58_address else "0123456789"
    changed = [
        number[:place] + other + number[place + 1 :] for place in places for other in others if other != number[place]
    ]
    passed = [one for one in changed if check(one)]
    assert len(passed) <= WEAK.get(check, 0), passed


def test_corsicas_departments_count_as_the_issuer_says() -> None:
    """A and B count as 0, less one million and two: the same as 19 and 18 in their place."""
    for letter, less in (("A", 1_000_000), ("B", 2_000_000)):
        number = int("185052012345600"[:5] + "20" + "123456") - less
        key = 97 - number % 97
        assert ids.fr_nir(f"18505 2{letter} 123456 {key:02}")
        assert not ids.fr_nir(f"18505 2{letter} 123456 {key % 97 + 1:02}")
    assert not ids.fr_nir("18505X012345612")


def checked(number: str, check: object, length: int = 1) -> str:
    """Return `number` with the check digits that make it one."""
    assert callable(check)
    (found, *_) = [f"{number}{n:0{length}}" for n in range(10**length) if check(f"{number}{n:0{length}}")]
    return found


@pytest.mark.parametrize(
    ("day", "is_one"),
    [("01", True), ("31", True), ("32", False), ("60", False), ("61", True), ("91", True), ("92", False)],
)
def test_a_swedish_co_ordination_number_adds_sixty_to_the_day(day: str, is_one: bool) -> None:
    assert any(ids.se_personal(f"8112{day}-987{n}") for n in range(10)) is is_one


@pytest.mark.parametrize(
    ("day", "is_one"),
    [("01", True), ("31", True), ("32", False), ("40", False), ("41", True), ("71", True), ("72", False)],
)
def test_a_norwegian_d_number_adds_forty_to_the_day(day: str, is_one: bool) -> None:
    assert any(ids.no_personal(f"{day}10869{n:04}") for n in range(10_000)) is is_one


@pytest.mark.parametrize("month", ["01", "12", "21", "32", "41", "52", "61", "72", "81", "92"])
def test_a_polish_number_adds_its_century_to_the_month(month: str) -> None:
    assert any(ids.pl_pesel(f"44{month}140135{n}") for n in range(10))
    assert not any(ids.pl_pesel(f"44{other}140135{n}") for n in range(10) for other in ("00", "13", "20", "33", "99"))


def test_a_date_that_there_is_not_makes_no_number() -> None:
    assert not any(ids.fi_personal(f"311152-308{c}") for c in "0123456789ABCDEFHJKLMNPRSTUVWXY")
    assert not any(ids.cn_resident(f"11010519491331002{c}") for c in "0123456789X")
    assert not any(ids.no_personal(f"311186{n:05}") for n in range(0, 100_000, 7))


def test_numbers_of_one_digit_and_of_the_wrong_first_digit() -> None:
    assert not ids.br_cpf("111.111.111-11")
    assert not ids.ca_sin("046 454 286"), "0 is for nobody"
    assert not ids.ca_sin(checked("80045428", checks.luhn))
    assert ids.ca_sin(checked("90045428", checks.luhn))
    assert not checks.credit_card("0000000000000000")
    assert not checks.card_beside_cue("000000000000")


def test_of_the_ten_digits_of_a_german_number_one_stands_twice_or_three_times() -> None:
    for ten, is_one in (("1234567890", False), ("1123456789", True), ("1112345678", True), ("1111234567", False)):
        assert any(ids.de_tax(f"{ten}{n}") for n in range(10)) is is_one


def test_letters_of_singapore() -> None:
    """Each series has its own table, and T and G add four."""
    for series, letter in zip("STFGM", "DJNXK", strict=True):
        right = {c for c in "ABCDEFGHIJKLMNPQRTUWXZ" if ids.sg_nric(f"{series}1234567{c}")}
        assert right == {letter}


@pytest.mark.parametrize("length", range(10, 22))
def test_a_card_has_a_length_that_its_network_issues(length: int) -> None:
    def number(head: str) -> str:
        return checked(head + "123456789012345678"[: length - len(head) - 1], checks.luhn)

    lengths = {
        "34": {15}, "35": set(), "37": {15}, "4": {13, 16, 18, 19}, "50": set(), "51": {16}, "55": {16}, "2221": {16},
        "2720": {16}, "2721": set(), "2220": set(), "6011": {16, 17, 18, 19}, "643": set(), "644": {16, 17, 18, 19},
        "649": {16, 17, 18, 19}, "300": {14, 16}, "306": set(), "309": {14, 16}, "3528": {16, 17, 18, 19},
        "3527": set(),
        "3590": set(), "62": {16, 17, 18, 19}, "6304": {13, 16, 19}, "2204": {16, 17, 18, 19}, "2205": set(),
        "9": set(),
    }  # fmt: skip
    for head, issued in lengths.items():
        assert checks.credit_card(number(head)) is (length in issued), (head, length)
    assert checks.card_beside_cue(number("9")) is (12 <= length <= 19)


@pytest.mark.parametrize(
    ("number", "is_one"),
    [
        ("001-01-0001", True), ("000-12-3456", False), ("665-12-3456", True), ("666-12-3456", False),
        ("899-12-3456", True),
        ("900-12-3456", False), ("123-00-4567", False), ("123-45-0000", False), ("123-45-0001", True),
    ],
)  # fmt: skip
def test_social_security_numbers_of_the_united_states(number: str, is_one: bool) -> None:
    assert checks.us_ssn(number) is is_one


def test_groups_of_taxpayer_numbers_of_the_united_states() -> None:
    found = {group for group in range(100) if checks.us_itin(f"912-{group:02}-1234")}
    assert found == {*range(50, 66), *range(70, 89), *range(90, 93), *range(94, 100)}


def test_an_iban_has_the_length_of_its_country() -> None:
    assert not checks.iban("GB82 WEST 1234 5698 7654 3")
    assert not checks.iban("XX82 WEST 1234 5698 7654 32")
    assert not checks.iban("GB82 WEST 1234 5698 7654 33")
    assert not checks.iban("GB82 WEST 1234 5698 7654 3é")


@pytest.mark.parametrize(
    ("text", "is_one", "is_six"),
    [
        ("203.0.113.7", True, False), ("127.0.0.1", False, False), ("0.0.0.0", False, False),
        ("256.1.1.1", False, False),
        ("2001:db8::7", True, True), ("::1", False, False), ("::", False, False), ("a::b", True, False),
        ("a:b::c", True, False), ("a:1::c", True, True), ("1::2", True, False),
    ],
)  # fmt: skip
def test_addresses_of_hosts(text: str, is_one: bool, is_six: bool) -> None:
    assert checks.ip_address(text) is is_one
    assert checks.ipv6_address(text) is is_six
    if is_one:
        assert not ipaddress.ip_address(text).is_loopback


@pytest.mark.parametrize(
    ("text", "beside", "national"),
    [
        ("1234567", True, False), ("123456", False, False), ("123456789012", True, False),
        ("1234567890123", False, False),
        ("1980-03-03", False, False), ("03/03/1980", False, False), ("1980-13-03", True, False),
        ("0123456789", True, True),
        ("01234 567890", True, True), ("0123 456 78", True, True), ("0123 45678", True, False),
        ("0123-456-789", True, True),
        ("0123-456 789", True, False), ("0123/456 789", True, True), ("(0123) 456789", True, True),
        ("0111001100", True, False), ("0123 456 78 90", True, True), ("0123 456 78 901", True, False),
        ("19800303", True, False), ("1980 3 3 4", False, False),
    ],
)  # fmt: skip
def test_phone_numbers_and_dates_are_told_apart(text: str, beside: bool, national: bool) -> None:
    assert checks.phone_beside_cue(text) is beside
    assert checks.national_phone(text) is national


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("+1 415-555-0143", True), ("0044 20 7946 0730", True), ("+46 (0)8 928 571 38", True), ("+5.8659490840", False),
        ("+1.415.555.0143", True), ("+1 41", False), ("+999 123456789", False),
    ],
)  # fmt: skip
def test_international_numbers(text: str, is_one: bool) -> None:
    assert checks.international_phone(text) is is_one


def test_area_codes_of_north_america_begin_with_two_to_nine() -> None:
    assert [checks.north_american_phone(f"{n}02-555-0154") for n in range(10)] == [False] * 2 + [True] * 8
    assert checks.north_american_phone("1-800-555-0126")


def test_luhns_check_against_its_definition() -> None:
    for number in range(10_000):
        total = 0
        for place, digit in enumerate(map(int, reversed(str(number)))):
            doubled = digit * 2 if place % 2 else digit
            total += doubled - 9 if doubled > 9 else doubled
        assert checks.luhn(str(number)) is (total % 10 == 0)
