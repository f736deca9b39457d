"""Check personal numbers of further countries; `national_ids.py` has the others and the list of all.

Each function takes the matched symbols and returns whether the issuer's published rule holds.
Not covered: whether a number was issued; the last digit of Korean and Danish numbers, which is no check digit since
October 2020 and 2007 (their dates are checked).
"""

from __future__ import annotations

from itertools import cycle

from sluicegate.safety.rules.checks import calendar_day, digits, luhn, weighted


def day_first(number: str) -> bool:
    """Check the date `DDMMYY`. The century is unknown, so 29 February is valid in any year."""
    return calendar_day(2000, int(number[2:4]), int(number[:2]))


def year_first(number: str) -> bool:
    """Check the date `YYMMDD`, as `day_first`."""
    return calendar_day(2000, int(number[2:4]), int(number[4:6]))


def dk_cpr(text: str) -> bool:
    return day_first(digits(text))


def at_svnr(text: str) -> bool:
    number = digits(text)
    return weighted(number, (3, 7, 9, 0, 5, 8, 4, 2, 1, 6)) % 11 == int(number[3]) and number[0] != "0"


def au_tfn(text: str) -> bool:
    return weighted(digits(text), (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def au_medicare(text: str) -> bool:
    number = digits(text)
    return number[0] in "23456" and weighted(number[:8], (1, 3, 7, 9, 1, 3, 7, 9)) % 10 == int(number[8])


def bg_egn(text: str) -> bool:
    """Check Bulgaria's EGN. The century is added to the month: 20 before 1900, 40 from 2000."""
    number = digits(text)
    day = calendar_day(2000, int(number[2:4]) % 20, int(number[4:6]))
    return day and weighted(number[:9], (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(number[9])


def cl_rut(text: str) -> bool:
    number = digits(text[:-1])
    total = sum(int(d) * w for d, w in zip(reversed(number), cycle(range(2, 8)), strict=False))
    return "0123456789K0"[11 - total % 11] == text[-1].upper()


def cz_birth_number(text: str) -> bool:
    """Check Czech birth numbers. Women's months count from 50; 20 more where a day's numbers ran out. Slovakia's are
    the same."""
    number = digits(text)
    day = calendar_day(2000, int(number[2:4]) % 50 % 20, int(number[4:6]))
    return day and int(number[:9]) % 11 % 10 == int(number[9])


def ee_lt_code(text: str) -> bool:
    """Check personal codes of Estonia and Lithuania: a second row of weights counts where the first gives 10."""
    number = digits(text)
    first = weighted(number[:10], (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    second = weighted(number[:10], (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return year_first(number[1:]) and (first if first < 10 else second) == int(number[10])


def kz_iin(text: str) -> bool:
    number = digits(text)
    first = weighted(number[:11], tuple(range(1, 12))) % 11
    check = first if first < 10 else weighted(number[:11], (3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2)) % 11
    return year_first(number) and number[6] in "123456" and check == int(number[11])


def gr_amka(text: str) -> bool:
    return day_first(digits(text)) and luhn(digits(text))


def hr_oib(text: str) -> bool:
    """Check Croatia's OIB: ISO 7064, modulo 11, 10."""
    number, product = digits(text), 10
    for digit in number[:10]:
        product = 2 * ((int(digit) + product) % 10 or 10) % 11
    return (11 - product) % 10 == int(number[10])


def hk_id(text: str) -> bool:
    """Check Hong Kong's identity card. A missing first letter counts as a space, 36."""
    body = [c for c in text.upper() if c.isalnum()]
    values = [36] * (9 - len(body)) + [int(c, 36) for c in body]
    return sum(value * weight for value, weight in zip(values, range(9, 0, -1), strict=True)) % 11 == 0


def hu_taj(text: str) -> bool:
    number = digits(text)
    return weighted(number[:8], (3, 7) * 4) % 10 == int(number[8])


def ie_pps(text: str) -> bool:
    """Check Ireland's PPS number. The letter is the weighted sum modulo 23; a second letter counts nine times."""
    letters = text.upper()[7:]
    second = ord(letters[1]) - 64 if letters[1:] and letters[1] != "W" else 0
    return "WABCDEFGHIJKLMNOPQRSTUV"[(weighted(text[:7], tuple(range(8, 1, -1))) + 9 * second) % 23] == letters[0]


def il_id(text: str) -> bool:
    return luhn(digits(text))


def is_kennitala(text: str) -> bool:
    number = digits(text)
    check = (11 - weighted(number[:8], (3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return day_first(number) and number[9] in "089" and check == int(number[8])


def jp_my_number(text: str) -> bool:
    number = digits(text)
    rest = weighted(number[:11], (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return (11 - rest if rest > 1 else 0) == int(number[11])


def kr_rrn(text: str) -> bool:
    return year_first(digits(text))


_CURP = "0123456789ABCDEFGHIJKLMN\u00d1OPQRSTUVWXYZ"


def mx_curp(text: str) -> bool:
    values = [_CURP.index(c) for c in text.upper()[:17]]
    total = sum(value * weight for value, weight in zip(values, range(18, 1, -1), strict=True))
    return year_first(text[4:10]) and (10 - total % 10) % 10 == int(text[17])


def nz_ird(text: str) -> bool:
    """Check New Zealand's IRD number. A second row of weights counts where the first gives 10; 10 again is never
    issued."""
    number = digits(text).zfill(9)
    check = -weighted(number[:8], (3, 2, 7, 6, 5, 4, 3, 2)) % 11
    if check == 10:
        check = -weighted(number[:8], (7, 4, 3, 2, 5, 2, 7, 6)) % 11
    return check == int(number[8]) and 10_000_000 < int(number) < 150_000_000


def pt_nif(text: str) -> bool:
    number = digits(text)
    return number[0] != "0" and (11 - weighted(number[:8], tuple(range(9, 1, -1))) % 11) % 11 % 10 == int(number[8])


def ro_cnp(text: str) -> bool:
    number = digits(text)
    rest = weighted(number[:12], (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    county = number[7:9]
    counties = "01" <= county <= "48" or county in ("51", "52", "70", "80", "81", "82", "83")
    return year_first(number[1:]) and counties and (1 if rest == 10 else rest) == int(number[12])


def yu_jmbg(text: str) -> bool:
    """Check the JMBG of the successors of Yugoslavia: Serbia, Slovenia (EMSO), Bosnia, Montenegro, North Macedonia.
    Years are 1800 to 2099: with later ones, milliseconds since 1970 would pass."""
    number = digits(text)
    check = (11 - weighted(number[:12], (7, 6, 5, 4, 3, 2) * 2) % 11) % 11
    year = int(number[4:7]) + (1000 if number[4] > "7" else 2000)
    day = calendar_day(year, int(number[2:4]), int(number[:2]))
    return day and year < 2100 and check == int(number[12])


def ru_snils(text: str) -> bool:
    number = digits(text)
    return int(number[:9]) > 1_001_998 and weighted(number[:9], tuple(range(9, 0, -1))) % 101 % 100 == int(number[9:])


def ru_inn(text: str) -> bool:
    number = digits(text)
    weights = (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)
    return all(weighted(number[:n], weights[11 - n :]) % 11 % 10 == int(number[n]) for n in (10, 11))


def th_id(text: str) -> bool:
    number = digits(text)
    return (11 - weighted(number[:12], tuple(range(13, 1, -1))) % 11) % 10 == int(number[12])


def tw_id(text: str) -> bool:
    """Check Taiwan's identity card. The letter stands for two digits, in an order of its own."""
    letter = "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(text[0].upper()) + 10
    return (letter // 10 + letter % 10 * 9 + weighted(text[1:], (8, 7, 6, 5, 4, 3, 2, 1, 1))) % 10 == 0


def ua_tax_number(text: str) -> bool:
    number = digits(text)
    return weighted(number[:9], (-1, 5, 7, 9, 4, 6, 10, 5, 7)) % 11 % 10 == int(number[9])


def za_id(text: str) -> bool:
    """Check South Africa's number. Three zeros at the end, of numbers given out before 1986, are left to milliseconds
    since 1970."""
    number = digits(text)
    return year_first(number) and number[10] in "012" and number[10:] != "000" and luhn(number)


def ar_cuit(text: str) -> bool:
    """Check Argentina's CUIT. A rest of 1 would need the digit 10, and has 9. The first two digits say whose it is:
    `10-20200222-1` is a version."""
    number = digits(text)
    if number[:2] not in ("20", "23", "24", "25", "26", "27", "30", "33", "34", "50", "51", "55"):
        return False
    return "01234567899"[-weighted(number[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11] == number[10]


def ec_cedula(text: str) -> bool:
    """Check Ecuador's cédula: provinces 01 to 24, and 30 for those abroad; natural persons have a third digit below
    6."""
    number = digits(text)
    province = "01" <= number[:2] <= "24" or number[:2] == "30"
    return province and number[2] < "6" and luhn(number)


def gb_nino(text: str) -> bool:
    """Refuse prefixes that are never issued."""
    return text[:2].upper() not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")
