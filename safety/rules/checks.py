"""Check numbers found by their shape: check digits and plausible ranges. Each function takes the matched symbols.

Not covered: whether a number was ever issued. About one in ten random digit runs passes a single check digit, so the
shapes in `pii.py` are narrow where the check is weak.
"""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import date

import phonenumbers


def digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def luhn(number: str) -> bool:
    doubled = (sum(divmod(2 * int(d), 10)) for d in number[-2::-2])
    return (sum(map(int, number[-1::-2])) + sum(doubled)) % 10 == 0


def weighted(number: str, weights: tuple[int, ...]) -> int:
    return sum(int(d) * w for d, w in zip(number, weights, strict=False))


# First digits (from, to), and the lengths that the network issues.
_NETWORKS = (
    ("34", "34", (15,)), ("37", "37", (15,)),  # American Express
    ("4", "4", (13, 16, 18, 19)),  # Visa
    ("51", "55", (16,)), ("2221", "2720", (16,)),  # Mastercard
    ("6011", "6011", (16, 17, 18, 19)), ("644", "649", (16, 17, 18, 19)), ("65", "65", (16, 17, 18, 19)),  # Discover
    ("300", "305", (14, 16)), ("309", "309", (14, 16)), ("36", "36", (14, 16)), ("38", "39", (14, 16)),  # Diners
    ("3528", "3589", (16, 17, 18, 19)), ("2131", "2131", (15,)), ("1800", "1800", (15,)),  # JCB
    ("62", "62", (16, 17, 18, 19)), ("81", "81", (16, 17, 18, 19)),  # UnionPay
    ("2200", "2204", (16, 17, 18, 19)),  # Mir
    ("5018", "5018", (13, 15, 16, 18, 19)), ("5020", "5020", (13, 16, 19)), ("5038", "5038", (13, 16, 19)),
    ("56", "58", (13, 14, 15, 16, 18, 19)), ("6304", "6304", (13, 16, 19)), ("67", "67", (13, 16, 18, 19)),  # Maestro
    ("60", "60", (16,)), ("508", "508", (16,)), ("353", "353", (16,)), ("356", "356", (16,)),  # RuPay
)  # fmt: skip


def credit_card(text: str) -> bool:
    number = digits(text)
    return any(
        low <= number[: len(low)] <= high and len(number) in lengths for low, high, lengths in _NETWORKS
    ) and _card_check(number)


def card_beside_cue(text: str) -> bool:
    """Return whether `text` has 12 to 19 digits with a valid check digit; for numbers next to the word `card`, since
    the ranges of small networks are too many to list."""
    return 12 <= len(digits(text)) <= 19 and _card_check(digits(text))


def _card_check(number: str) -> bool:
    return luhn(number) and len(set(number)) > 1


_IBAN_COUNTRIES = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
"""Countries by the length of their numbers."""


def iban(text: str) -> bool:
    compact = "".join(c for c in text.upper() if c.isalnum())
    if compact[:2] not in _IBAN_COUNTRIES.get(len(compact), "").split() or not compact.isascii():
        return False
    return int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def us_ssn(text: str) -> bool:
    number = digits(text)
    return number[:3] not in ("000", "666") and number[0] != "9" and number[3:5] != "00" and number[5:] != "0000"


def us_itin(text: str) -> bool:
    group = int(digits(text)[3:5])
    return 50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99


_SECTION = 31
"""Largest part of section and version numbers; one address in five thousand has no larger part either."""


def ip_address(text: str) -> bool:
    """Return whether `text` is the address of a host; loopback and unspecified addresses, netmasks and networks
    identify nobody."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or text.startswith("255.") or text.endswith(".0.0.0"))


def lone_address(text: str) -> bool:
    """Check an address without a cue. Four small numbers are a section (`2.3.4.1`), unless they are in a private
    network and contain a zero (`10.0.0.5`), which sections do not."""
    if not ip_address(text):  # checked first: parts of ranges and networks may not be numbers
        return False
    parts = [int(part) for part in text.split(".")]
    private = parts[0] == 10 and 0 in parts
    return max(parts) > _SECTION or private


def is_dotted(text: str) -> bool:
    return text.count(".") == 3


def is_colon_pairs(text: str) -> bool:
    return all(len(group) == 2 for group in text.split(":"))


def has_comma(text: str) -> bool:
    return "," in text


def is_drawn(text: str) -> bool:
    """Return whether four numbers may be decimals of an SVG path (`3.51.98.32` is 3.51, .98 and .32)."""
    return is_dotted(text) and all(len(part) <= 2 for part in text.split(".")[1:])


def is_dashed(text: str) -> bool:
    return text.count("-") == 5


def names_a_device(text: str) -> bool:
    """Return whether the six groups differ; broadcast and null addresses repeat one group."""
    return len(set(text.lower().replace("-", ":").split(":"))) > 1


def dashed_mac(text: str) -> bool:
    """Return whether a group cannot come from an SVG path, in which `10-5c-20` is a number, the command c and two more
    numbers, and whether all letters have one case."""
    groups = text.split("-")
    letters = "".join(c for c in text if c.isalpha())
    drawn = all(group.isdigit() or (group[0].isdigit() and group[1] in "acAC") for group in groups)
    return not drawn and letters in (letters.lower(), letters.upper())


def dotted_mac(text: str) -> bool:
    """Return whether three groups of four with points between them are an address and no number or words: digits and
    letters, all of one case."""
    letters = "".join(c for c in text if c.isalpha())
    mixed = bool(letters) and any(c.isdigit() for c in text)
    return mixed and letters in (letters.lower(), letters.upper()) and len(set(text.split("."))) > 1


def is_dotted_mac(text: str) -> bool:
    return text.count(".") == 2


def ipv6_address(text: str) -> bool:
    """Return whether `text` is an IPv6 address of at least three groups with a digit; `a::b` is a name in several
    programming languages."""
    groups = [group for group in text.split(":") if group]
    return len(groups) > 2 and any(c.isdigit() for c in text) and ip_address(text)


def international_phone(text: str) -> bool:
    number = "+" + digits(text.replace("(0)", ""))
    if text.count(".") == 1 and not any(c in text for c in " -()/"):  # a signed decimal number
        return False
    return _possible(number.replace("+00", "+", 1), None)


def dialled_phone(text: str) -> bool:
    """Check numbers with the prefix 00. Points among other marks are decimals of a drawing (`.003-1.185-2.395`)."""
    return not ("." in text and any(c in text for c in " -")) and international_phone(text)


def national_phone(text: str) -> bool:
    """Check numbers with a trunk prefix 0: ten or eleven digits, or nine in at least three groups (a postcode with a
    house number has two); after the first group one kind of mark separates them; dates are refused."""
    marks = {c for c in text.replace(")", "").lstrip("(0123456789") if not c.isdigit()}
    groups = len("".join(c if c.isdigit() else " " for c in text).split())
    number = digits(text)
    plausible = (10 if groups < 3 else 9) <= len(number) <= 11 and len(set(number)) > 2  # not binary
    return plausible and len(marks - {"/"}) <= 1 and not _is_date(text)


def north_american_phone(text: str) -> bool:
    """Check that the area code begins with 2 to 9 and that no dash follows a point, as in numbers of clauses
    (`252.227-7013`). Fictional exchanges (555) are accepted: examples use them."""
    return digits(text)[-10] in "23456789" and not ("." in text and "-" in text and "(" not in text)


def phone_beside_cue(text: str) -> bool:
    groups = [len(group) for group in "".join(c if c.isdigit() else " " for c in text).split()]
    if not 7 <= sum(groups) <= 12 or groups == [3, 2, 4] or _is_date(text):  # 3-2-4 is a social security number
        return False
    is_decimal = text.count(".") == 1 and len(groups) == 2 and groups != [3, 4]
    return not is_decimal and not _is_years(text)


def _possible(number: str, region: str | None) -> bool:
    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(number, region))
    except phonenumbers.NumberParseException:
        return False


def _is_years(text: str) -> bool:
    """Return whether `text` is two years, as in `2017-2022`."""
    years = "".join(c if c.isdigit() else " " for c in text).split()
    return len(years) == 2 and all(len(year) == 4 and year[:2] in ("19", "20") for year in years)


def _is_date(text: str) -> bool:
    groups = "".join(c if c.isdigit() else " " for c in text).split()
    return len(groups) >= 3 and any(_is_day(*order) for order in (groups[:3], groups[2::-1]))


def _is_day(year: str, month: str, day: str) -> bool:
    return len(year) == 4 and len(month) <= 2 and len(day) <= 2 and calendar_day(int(year), int(month), int(day))


def calendar_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def base58_address(text: str) -> bool:
    """Check addresses of Bitcoin and similar currencies: 25 bytes, the last four from a double SHA-256 of the
    others."""
    value = 0
    for char in text:
        value = value * 58 + _BASE58.index(char)
    if value >= 1 << 200:
        return False
    raw = value.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def bech32_address(text: str) -> bool:
    """Check the checksum of BIP 173 or BIP 350 over the human-readable part and the data."""
    prefix, _, data = text.lower().rpartition("1")
    values = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix] + [_BECH32.find(c) for c in data]
    check = 1
    for value in values:
        if value < 0:
            return False
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, term in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= term if top >> bit & 1 else 0
    return check in (1, 0x2BC830A3)
