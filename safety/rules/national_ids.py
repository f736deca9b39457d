"""List the formats of states' personal numbers, each with the check that its issuer defined.

Not covered: numbers without a check digit or a distinctive format (most passports and driving licences), and countries
not listed in `SHAPES`.
"""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.safety.rules import national_checks as more
from sluicegate.safety.rules.checks import calendar_day, digits, luhn, us_itin, us_ssn, weighted


def _letter(number: int, letters: str) -> str:
    return letters[number % len(letters)]


def es_dni(text: str) -> bool:
    """Check Spain's DNI and NIE. The letter is the number modulo 23; X, Y, Z of foreigners count as 0, 1, 2."""
    compact = "".join(c for c in text.upper() if c.isalnum())
    return _letter(int(compact[:-1].translate(str.maketrans("XYZ", "012"))), "TRWAGMYFPDXBNJZSQVHLCKE") == compact[-1]


def fr_nir(text: str) -> bool:
    """Check France's NIR. The last two digits complement the first thirteen modulo 97; Corsica's 2A and 2B count as 19
    and 18."""
    compact = "".join(c for c in text.upper() if c.isalnum()).replace("2A", "19").replace("2B", "18")
    return compact.isdigit() and 97 - int(compact[:13]) % 97 == int(compact[13:])


def be_national(text: str) -> bool:
    number = digits(text)
    return any(97 - int(century + number[:9]) % 97 == int(number[9:]) for century in ("", "2"))


_ODD = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12,
                 14, 16, 10, 22, 25, 24, 23), strict=True))  # fmt: skip


def it_fiscal(text: str) -> bool:
    """Check Italy's fiscal code. Characters at odd places have their own table; the sum modulo 26 names the last
    letter."""
    text = text.upper()
    even = sum(int(c) if c.isdigit() else ord(c) - 65 for c in text[1:15:2])
    return chr(65 + (sum(_ODD[c] for c in text[0:15:2]) + even) % 26) == text[15]


def ch_ahv(text: str) -> bool:
    number = digits(text)
    return (10 - weighted(number[:12], (1, 3) * 6) % 10) % 10 == int(number[12])


def se_personal(text: str) -> bool:
    number = digits(text)[-10:]
    return _short_day(number, 60) and luhn(number)


def _short_day(number: str, shift: int) -> bool:
    """Check year, month and day in two digits each; a co-ordination number adds `shift` to the day."""
    day = int(number[4:6])
    return calendar_day(2000, int(number[2:4]), day if day <= 31 else day - shift)


def fi_personal(text: str) -> bool:
    text = text.upper()
    number = digits(text[:-1])
    day = calendar_day(2000, int(number[2:4]), int(number[:2]))
    return day and _letter(int(number), "0123456789ABCDEFHJKLMNPRSTUVWXY") == text[-1]


def no_personal(text: str) -> bool:
    number = digits(text)
    first = weighted(number[:10], (3, 7, 6, 1, 8, 9, 4, 5, 2, 1))
    second = weighted(number, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1))
    day = int(number[:2])
    return first % 11 == second % 11 == 0 and calendar_day(2000, int(number[2:4]), day if day < 40 else day - 40)


def pl_pesel(text: str) -> bool:
    """Check Poland's PESEL. The century is added to the month, in steps of twenty."""
    number = digits(text)
    day = calendar_day(2000, int(number[2:4]) % 20, int(number[4:6]))
    return day and weighted(number, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def br_cpf(text: str) -> bool:
    number = digits(text)
    if len(set(number)) == 1:
        return False
    return all(weighted(number[:n], tuple(range(n + 1, 1, -1))) * 10 % 11 % 10 == int(number[n]) for n in (9, 10))


_D5 = tuple(tuple((i + j) % 5 if j < 5 else 5 + (i + j) % 5 for j in range(10)) for i in range(5)) + tuple(
    tuple(5 + (i - j) % 5 if j < 5 else (i - j) % 5 for j in range(10)) for i in range(5, 10)
)
"""The dihedral group of order ten, which Verhoeff's check computes in."""

_TURN = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def in_aadhaar(text: str) -> bool:
    check = 0
    for place, digit in enumerate(reversed(digits(text))):
        value = int(digit)
        for _ in range(place % 8):
            value = _TURN[value]
        check = _D5[check][value]
    return check == 0


def ca_sin(text: str) -> bool:
    return luhn(digits(text)) and digits(text)[0] not in "08"


def cn_resident(text: str) -> bool:
    text = text.upper()
    sound = calendar_day(int(text[6:10]) or 1, int(text[10:12]), int(text[12:14]))
    return (
        sound
        and "10X98765432"[weighted(text[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)) % 11] == text[17]
    )


def sg_nric(text: str) -> bool:
    text = text.upper()
    total = weighted(text[1:8], (2, 7, 6, 5, 4, 3, 2)) + (4 if text[0] in "TG" else 3 if text[0] == "M" else 0)
    if text[0] == "M":
        return _letter(total, "XWUTRQPNJLK") == text[8]
    return _letter(total, "JZIHGFEDCBA" if text[0] in "ST" else "XWUTRQPNMLK") == text[8]


def tr_identity(text: str) -> bool:
    """Check Turkey's number. One of only two digits is a bit mask rather than a number that somebody has."""
    number = [int(d) for d in digits(text)]
    tenth = (7 * sum(number[0:9:2]) - sum(number[1:8:2])) % 10
    return tenth == number[9] and sum(number[:10]) % 10 == number[10] and len(set(number)) > 2


def nl_bsn(text: str) -> bool:
    return weighted(digits(text), (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def de_tax(text: str) -> bool:
    """Check Germany's tax number: ISO 7064 modulo 11, 10; one digit of the first ten stands twice or three times."""
    number = digits(text)
    product = 10
    for digit in number[:10]:
        total = (int(digit) + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(number[10]) and len(set(number[:10])) in (8, 9)


def gb_nhs(text: str) -> bool:
    number = digits(text)
    return (11 - weighted(number[:9], tuple(range(10, 1, -1))) % 11) % 11 == int(number[9])


_UA_CUE = "(?i)\\b(?:rnokpp|p\u043do\u043a\u043f\u043f|\u0438\u043f\u043d)[^0-9\\n]{0,12}"

Shape = tuple[str, str, Callable[[str], bool] | None, str]

SHAPES: tuple[Shape, ...] = (
    # label, pattern, check, cue (a pattern that must precede it where the check alone is too weak)
    ("us_ssn", "\\d{3}-\\d{2}-\\d{4}", us_ssn, ""),
    ("us_ssn", "\\d{3}[ .-]?\\d{2}[ .-]?\\d{4}", us_ssn, "(?i)\\b(?:ssn|social security|tax ?payer id)[^0-9\\n]{0,12}"),
    ("us_itin", "9\\d{2}-\\d{2}-\\d{4}", us_itin, ""),
    ("gb_nino", "(?i)[a-ceghj-pr-tw-z][a-ceghj-npr-tw-z](?: ?\\d{2}){3} ?[a-d]", more.gb_nino, ""),
    ("gb_nhs", "\\d{3}[ -]?\\d{3}[ -]?\\d{4}", gb_nhs, "(?i)\\bnhs[^0-9\\n]{0,12}"),
    ("es_dni", "(?i)(?:\\d{8}|[xyz]-?\\d{7})-?[a-z]", es_dni, ""),
    ("fr_nir", "(?i)[12] ?\\d{2} ?\\d{2} ?(?:\\d{2}|2[ab]) ?\\d{3} ?\\d{3} ?\\d{2}", fr_nir, ""),
    ("de_tax_id", "\\d{2} ?\\d{3} ?\\d{3} ?\\d{3}", de_tax, "(?i)\\b(?:steuer|idnr|tax id)[^0-9\\n]{0,24}"),
    ("it_fiscal_code", "(?i)[a-z]{6}[0-9lmnp-v]{2}[a-ehlmprst][0-9lmnp-v]{2}[a-z][0-9lmnp-v]{3}[a-z]", it_fiscal, ""),
    ("nl_bsn", "\\d{9}|\\d{4}\\.\\d{2}\\.\\d{3}", nl_bsn, "(?i)\\b(?:bsn|burgerservicenummer|sofi)[^0-9\\n]{0,12}"),
    ("be_national_number", "\\d{2}\\.\\d{2}\\.\\d{2}-\\d{3}\\.\\d{2}", be_national, ""),
    (
        "be_national_number",
        "\\d{6}[ -]?\\d{3}[ .-]?\\d{2}",
        be_national,
        "(?i)\\b(?:rijksregister|registre national|insz|niss)[^0-9\\n]{0,12}",
    ),
    ("ch_ahv", "756\\.?\\d{4}\\.?\\d{4}\\.?\\d{2}", ch_ahv, ""),
    ("se_personal_number", "(?:19|20)?\\d{6}[-+]\\d{4}", se_personal, ""),
    ("se_personal_number", "(?:19|20)?\\d{10}", se_personal, "(?i)\\b(?:personn|samordningsn)ummer[^0-9\\n]{0,12}"),
    ("fi_personal_code", "\\d{6}[-+ABCDEFYXWVU]\\d{3}[0-9A-Y]", fi_personal, ""),
    ("no_personal_number", "\\d{6} ?\\d{5}", no_personal, ""),
    ("pl_pesel", "\\d{11}", pl_pesel, ""),
    ("tr_identity_number", "[1-9]\\d{10}", tr_identity, ""),
    ("br_cpf", "\\d{3}\\.\\d{3}\\.\\d{3}-\\d{2}", br_cpf, ""),
    ("br_cpf", "\\d{11}", br_cpf, "(?i)\\bcpf[^0-9\\n]{0,12}"),
    ("in_aadhaar", "[2-9]\\d{3}[ -]?\\d{4}[ -]?\\d{4}", in_aadhaar, "(?i)\\b(?:aadhaar|aadhar|uidai)[^0-9\\n]{0,14}"),
    ("in_pan", "[A-Z]{3}[ABCFGHJLPT][A-Z]\\d{4}[A-Z]", None, ""),
    ("ca_sin", "\\d{3}[ -]\\d{3}[ -]\\d{3}", ca_sin, "(?i)\\b(?:sin|social insurance)[^0-9\\n]{0,12}"),
    ("ca_sin", "\\d{9}", ca_sin, "\\bSIN[^0-9\\n]{0,12}"),
    ("ca_sin", "\\d{9}", ca_sin, "(?i)\\b(?:sin ?(?:number|no|[#:])|social insurance)[^0-9\\n]{0,12}"),
    ("cn_resident_id", "[1-9]\\d{16}[0-9Xx]", cn_resident, ""),
    ("sg_nric", "[STFGM]\\d{7}[A-Z]", sg_nric, ""),
    ("ar_cuit", "\\d{2}-\\d{8}-\\d", more.ar_cuit, ""),
    ("at_svnr", "[1-9]\\d{3} ?\\d{6}", more.at_svnr, "(?i)\\b(?:sozialversicherung|sv-?n|vsnr)[^0-9\\n]{0,16}"),
    ("au_tfn", "\\d{3} ?\\d{3} ?\\d{3}", more.au_tfn, "(?i)\\b(?:tfn|tax file)[^0-9\\n]{0,12}"),
    ("au_medicare", "[2-6]\\d{3} ?\\d{5} ?\\d(?:[ /-]?\\d)?", more.au_medicare, "(?i)\\bmedicare[^0-9\\n]{0,14}"),
    ("bg_egn", "\\d{10}", more.bg_egn, "(?i)\\be(?:gn|\u0433h)[^0-9\\n]{0,12}"),
    ("cl_rut", "\\d{1,2}\\.\\d{3}\\.\\d{3}-[0-9Kk]", more.cl_rut, ""),
    ("cz_birth_number", "\\d{6}/\\d{4}", more.cz_birth_number, ""),
    ("dk_cpr", "\\d{6}-?\\d{4}", more.dk_cpr, "(?i)\\b(?:cpr|personnummer)[^0-9\\n]{0,12}"),
    ("ec_cedula", "\\d{9}-?\\d", more.ec_cedula, "(?i)\\bc[ei]dula[^0-9\\n]{0,16}"),
    ("ee_lt_personal_code", "[1-6]\\d{10}", more.ee_lt_code, ""),
    ("gr_amka", "\\d{11}", more.gr_amka, "(?i)\\b(?:amka|a\u03bcka)[^0-9\\n]{0,12}"),
    ("hk_id", "[A-Z]{1,2}\\d{6} ?\\([0-9A]\\)", more.hk_id, ""),
    ("hr_oib", "\\d{11}", more.hr_oib, "(?i)\\boib[^0-9\\n]{0,12}"),
    ("hu_taj", "\\d{3}[ -]?\\d{3}[ -]?\\d{3}", more.hu_taj, "(?i)\\btaj[^0-9\\n]{0,12}"),
    ("ie_pps", "(?i)\\d{7}[a-w][a-iw]?", more.ie_pps, "(?i)\\bpps[^0-9\\n]{0,14}"),
    ("il_id", "\\d{8}-?\\d", more.il_id, "(?i)\\b(?:teudat|israeli? id|tz)[^0-9\\n]{0,16}"),
    ("is_kennitala", "\\d{6}-?\\d{4}", more.is_kennitala, "(?i)\\b(?:kennitala|kt\\.?)[^0-9\\n]{0,8}"),
    (
        "jp_my_number",
        "\\d{4}[ -]?\\d{4}[ -]?\\d{4}",
        more.jp_my_number,
        "(?i)(?:my number|\u30de\u30a4\u30ca\u30f3\u30cf\u30fc|\u500b\u4eba\u756a\u53f7)[^0-9\\n]{0,12}",
    ),
    ("kr_rrn", "\\d{6}-[1-8]\\d{6}", more.kr_rrn, ""),
    ("kz_iin", "\\d{12}", more.kz_iin, "(?i)\\b(?:iin|\u0438\u0438h)[^0-9\\n]{0,12}"),
    ("mx_curp", "[A-Z]{4}\\d{6}[HMX][A-Z]{5}[0-9A-Z]\\d", more.mx_curp, ""),
    ("nz_ird", "\\d{2,3}[ -]?\\d{3}[ -]?\\d{3}", more.nz_ird, "(?i)\\bird[^0-9\\n]{0,12}"),
    ("pt_nif", "\\d{3} ?\\d{3} ?\\d{3}", more.pt_nif, "(?i)\\b(?:nif|contribuinte)[^0-9\\n]{0,12}"),
    ("ro_cnp", "[1-9]\\d{12}", more.ro_cnp, ""),
    ("yu_jmbg", "[0-3]\\d{12}", more.yu_jmbg, ""),
    ("ru_snils", "\\d{3}-\\d{3}-\\d{3}[ -]\\d{2}", more.ru_snils, ""),
    ("ru_inn", "\\d{12}", more.ru_inn, "(?i)\\b(?:inn|\u0438hh)[^0-9\\n]{0,12}"),
    ("th_id", "\\d-\\d{4}-\\d{5}-\\d{2}-\\d", more.th_id, ""),
    ("tw_id", "[A-Z][1289]\\d{8}", more.tw_id, ""),
    (
        "ua_tax_number",
        "\\d{10}",
        more.ua_tax_number,
        _UA_CUE,
    ),
    ("za_id", "\\d{6} ?\\d{4} ?\\d{3}", more.za_id, ""),
)
