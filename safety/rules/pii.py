"""Compile the patterns of personal data: addresses, numbers and identifiers, with their check digits.

Not covered: names, postal addresses, employers and other data without a fixed format (an optional plug-in finds them);
addresses spelled out (`jane at example dot com`); numbers in words; a number wrapped over two lines, except a card's.
IP addresses of no host pass (loopback, netmasks, `10.0.0.0`), as does a number that a word before it calls a section or
a version. An ambiguous format (7 digits, 12-digit cards, `2.3.4.1`, a MAC address that may be an SVG path) counts only
next to an English word that says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import phonenumbers

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.matching.nfa import Nfa, Rule
from sluicegate.safety.rules import checks
from sluicegate.safety.rules.credentials import nearly_revealed
from sluicegate.safety.rules.national_ids import SHAPES

_PHONE_CUE = (
    "(?i)\\b(?:phone|telephone|tel|mobile|cell|fax|call|dial|text|sms|whatsapp|hotline|answering at|messages to"
    "|reach (?:me|us|him|her|them))[^0-9+]{0,14}"
)
_CARD_CUE = "(?i)\\b(?:cards?|cc|visa|mastercard|maestro|amex|discover|diners|jcb)[^0-9]{0,18}"
_BIRTH_CUE = (
    "(?i)\\b(?:born|dob|d\\.o\\.b|date of birth|birth ?date|birthday|geboren|geburts(?:datum|tag)|geboortedatum|nee? le"
    "|date de naissance|nacid[oa]|fecha de nacimiento|nat[oa] il|data di nascita|nascid[oa]|data de nascimento"
    "|f[o\u00f8]d(?:t|d|selsdato|elsedatum)|data urodzenia|urodzon[ya]|syntym\u00e4aika|syntynyt|dogum tarihi)"
    "[^0-9\\n]{0,14}"
)
_ADDRESS_CUES = (
    "(?i)\\b(?:ip(?:v?4)?|inet|addr(?:ess)?(?:es)?|hosts?|hostname|servers?|nodes?|clients?|peer|machine|gateway|router"
    "|proxy|firewall|(?:sub)?net|network|dns|resolver|nameserver|ping(?:ed|ing)?|traceroute|nslookup|telnet|ssh|curl"
    "|bind|listen(?:s|ing)?|connect(?:s|ed|ing|ion)?|log(?:ged)? ?in|request(?:s|ed)?|traffic|packets?|source|src|dest"
    "|destination|dst|remote|origin)[^0-9.\\n]{0,16}",
    "(?:://|@)",
)
_VERSION_CUES = (
    "(?i)\\b(?:v|ver|(?:file|assembly|product|app)?versions?|releases?|builds?|rev|revision|firmware|drivers?|kernel"
    "|schema|sdk|agent|sections?|sect?|subsections?|chapters?|ch|clauses?|articles?|paragraphs?|para|appendix|annex"
    "|tables?|figures?|fig|exercises?|examples?|theorem|lemma|definition|equation|heading|outline|toc|requirements?|req)"
    "\\.?(?: (?:no|nr)\\.)?[ :=#>(\"'\\[_-]{0,4}",
    "[\u00a7\u00b6] ?",
    "[A-Za-z0-9_](?:==|~=|>=|<=)",
    "(?i)\\b(?:upgrad|downgrad|updat|bump)[a-z]{0,4} (?:[\\w@/-]{1,40} )?(?:from |to )?",
    "(?i)\\b(?:upgrad|downgrad|updat|bump)[a-z]{0,4} (?:[\\w@/-]{1,40} )?from [0-9.]{3,15} to ",
    "\\b(?:Chrom(?:e|ium)|CriOS|Edg(?:e|A|iOS)?|OPR|Opera|Vivaldi|YaBrowser|SamsungBrowser|Electron|Firefox|FxiOS"
    "|Version)/",
)
_DECIMAL = "[0-9]{0,3}\\.[0-9]{1,3}"
_PATH_CUE = f"[0-9](?:[mlhvcsqtaMLHVCSQTA]-?|-){_DECIMAL}(?:[ ,-]{_DECIMAL}){{0,4}}[ ,]"
"""Numbers of an SVG path, in which a command or a minus follows a digit at once."""
_MAC_CUE = (
    "(?i)\\b(?:macs?|bssid|hwaddr|hw|ether(?:net)?|link|physical|hardware|address|device|adapter|nic|wi-?fi)"
    "[^0-9\\n]{0,20}"
)
_MONTH = (
    "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|fev|avr|mai|juin|ene|abr|ago|dic|gen|mag|giu|lug|set|ott|out"
    "|dez|okt|maj|mrt|mei)[a-z]{0,7}"
)
_DIGIT = "[0-9]"
_MORE_NUMBERS = tuple(
    (",", *space, *sign, *[_DIGIT] * whole, "[.]", *[_DIGIT] * 4)
    for space in ((), ("[ ]",), ("[ ]", "[ ]"))
    for sign in ((), ("[+-]",))
    for whole in (1, 2, 3)
)
"""What follows two numbers of a longer list: another with four decimals, which heights have not."""
_PRIME = "['\u2019\u2032]"
_EXTENSION = ("[xX]", _DIGIT)
"""An extension that follows a phone number at once: `202-555-0147x12`."""
_PHONE_TAILS = tuple(mark + word for mark in (" ", "-", ", ") for word in ("office", "fax", "mobile", "cell"))


def _email(nfa: Nfa, rule: int) -> None:
    # The standard allows 64 characters; longer unbroken runs are accepted, since evaders know that filters stop there.
    # The sign may be encoded for a URL or for HTML.
    rest = "(?:@|%40|&#64;|&commat;)(?:\\w[\\w-]*\\.)+[^\\W\\d_]\\w{1,23}\\b"
    nfa.add_address(rule, plain="\\w", dotted="[.%+'&-]", rest=rest, limits=(128, 64))


def _phone(nfa: Nfa, rule: int) -> None:
    def add(pattern: str, valid: Callable[[str], bool], **context: object) -> None:
        checked = nfa.add_rule(Rule("phone", valid, nearly_revealed))
        nfa.add_pattern(checked, pattern, **({"left": "number", "right": "number"} | context))  # type: ignore[arg-type]

    for form, valid in (
        ("\\+\\d(?:[ .()/-]{0,2}\\d){7,14}", checks.international_phone),
        ("00[ .-]?[1-9](?:[ .()-]{0,2}\\d){8,14}", checks.dialled_phone),
        ("(?:1[ .-]?)?(?:\\([2-9]\\d{2}\\) ?|[2-9]\\d{2}[ .-])\\d{3}[ .-]\\d{4}", checks.north_american_phone),
    ):
        add(form, valid)
        add(form, valid, right="any", behind=_EXTENSION)
    add("(?:0[1-9]\\d{0,3}[ /-]|\\(0[1-9]\\d{0,3}\\) ?)\\d{2,7}(?:[ -]\\d{2,4}){0,4}", checks.national_phone)
    weak = "\\(?\\d{2,5}\\)?(?:[ .-]?\\d{2,5}){1,5}"
    add(weak, checks.phone_beside_cue, cue=_PHONE_CUE, left="", right="number")
    add(weak, checks.phone_beside_cue, tails=_PHONE_TAILS)


def _credit_card(nfa: Nfa, rule: int) -> None:
    checked = nfa.add_rule(Rule("credit_card", checks.credit_card, nearly_revealed))
    for shape in (
        "\\d{4}(?:[\\s.-]?\\d{4}){2}[\\s.-]?\\d{1,4}(?:[\\s.-]?\\d{1,3})?",
        "\\d{4}[\\s.-]?\\d{6}[\\s.-]?\\d{4,5}",
    ):
        nfa.add_pattern(checked, shape, left="number", right="number")
    cued = nfa.add_rule(Rule("credit_card", checks.card_beside_cue, nearly_revealed))
    nfa.add_pattern(cued, "\\d(?:[ -]?\\d){11,18}", cue=_CARD_CUE, right="number")


def _iban(nfa: Nfa, rule: int) -> None:
    checked = nfa.add_rule(Rule("iban", checks.iban, nearly_revealed))
    shape = "(?i)[a-z]{2}[ -]?\\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,3})?"
    nfa.add_pattern(checked, shape, left="word", right="word")


def _fingerprint(nfa: Nfa, groups: int) -> None:
    """Exclude `groups` pairs of digits that go on as a longer run, such as the fingerprint of a key."""
    longer = nfa.add_rule(Rule("fingerprint", checks.is_colon_pairs, excludes=True))
    shape = f"(?i)[0-9a-f]{{2}}(?::[0-9a-f]{{2}}){{{groups - 1}}}"
    nfa.add_pattern(longer, shape, right="word", cue="(?i)[0-9a-f]{2}:")
    pair = "[0-9a-fA-F]"
    nfa.add_pattern(longer, shape, left="word", right="word", behind=(":", pair, pair))


def _ip_address(nfa: Nfa, rule: int) -> None:
    octet = "(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)"
    four = f"{octet}(?:\\.{octet}){{3}}"
    version = nfa.add_rule(Rule("ip_address", checks.is_dotted, excludes=True))
    for cue in _VERSION_CUES:
        nfa.add_pattern(version, four, right="number", cue=cue)
    drawn = nfa.add_rule(Rule("ip_address", checks.is_drawn, excludes=True))
    nfa.add_pattern(drawn, four, right="number", cue=_PATH_CUE)
    strong = nfa.add_rule(Rule("ip_address", checks.lone_address))
    nfa.add_pattern(strong, four, left="number", right="number")
    cued = nfa.add_rule(Rule("ip_address", checks.ip_address))
    for cue in _ADDRESS_CUES:
        nfa.add_pattern(cued, four, right="number", cue=cue)
    _fingerprint(nfa, 8)
    six = nfa.add_rule(Rule("ip_address", checks.ipv6_address))
    shape = "(?i)(?:[0-9a-f]{1,4}|:)(?::[0-9a-f]{0,4}){2,8}"
    nfa.add_pattern(six, shape, left="word", right="word")


def _mac_address(nfa: Nfa, rule: int) -> None:
    _fingerprint(nfa, 6)
    colons = "(?i)[0-9a-f]{2}(?::[0-9a-f]{2}){5}"
    named = nfa.add_rule(Rule("mac_address", checks.names_a_device))
    nfa.add_pattern(named, colons, left="word", right="word")
    dashed = "(?i)[0-9a-f]{2}(?:-[0-9a-f]{2}){5}"
    strong = nfa.add_rule(Rule("mac_address", checks.dashed_mac))
    nfa.add_pattern(strong, dashed, left="number", right="number")
    nfa.add_pattern(nfa.add_rule(Rule("mac_address", checks.is_dashed)), dashed, right="number", cue=_MAC_CUE)
    dotted = "(?i)[0-9a-f]{4}\\.[0-9a-f]{4}\\.[0-9a-f]{4}"
    mixed = nfa.add_rule(Rule("mac_address", checks.dotted_mac))
    nfa.add_pattern(mixed, dotted, left="number", right="number")
    nfa.add_pattern(nfa.add_rule(Rule("mac_address", checks.is_dotted_mac)), dotted, right="number", cue=_MAC_CUE)


def _coordinates(nfa: Nfa, rule: int) -> None:
    vector = nfa.add_rule(Rule("coordinates", checks.has_comma, excludes=True))
    pair = "[+-]?(?:[1-8]?\\d|90)\\.\\d{4,8},[ ]?[+-]?(?:1[0-7]\\d|[1-9]?\\d|180)\\.\\d{4,8}"
    nfa.add_pattern(vector, pair, right="number", cue="\\.\\d{4,20},[ ]{0,2}")
    for more in _MORE_NUMBERS:
        nfa.add_pattern(vector, pair, left="number", right="any", behind=more)
    nfa.add_pattern(rule, pair, left="number", right="number")
    nfa.add_pattern(rule, f"{_degrees(2)}[NS][, ]{{0,3}}{_degrees(3)}[EWO]", left="number", right="word")
    signed = "\\d{1,3}\\.\\d{2,15}\u00b0 ?"
    nfa.add_pattern(rule, f"{signed}[NS][, ]{{0,3}}{signed}[EWO]", left="number", right="word")
    for name in ("lat(?:itude)?", "(?:lon|lng|longitude)"):
        nfa.add_pattern(rule, "[+-]?\\d{1,3}\\.\\d{4,15}", cue=f"(?i)\\b{name}[\"' :=]{{1,5}}", right="number")


def _degrees(digits: int) -> str:
    """Return the pattern of degrees and minutes, with seconds or without."""
    minutes = f"\\d{{1,2}}(?:\\.\\d{{1,5}})?{_PRIME} ?"
    seconds = f'\\d{{1,2}}(?:\\.\\d{{1,4}})?(?:{_PRIME}{{2}}|["\u201d\u2033]) ?'
    return f"\\d{{1,{digits}}}\u00b0 ?{minutes}(?:{seconds})?"


def _date_of_birth(nfa: Nfa, rule: int) -> None:
    for shape in (
        "\\d{1,2}[/.-]\\d{1,2}[/.-](?:\\d{4}|\\d{2})",
        "\\d{4}[/.-]\\d{1,2}[/.-]\\d{1,2}",
        f"(?i)\\d{{1,2}}(?:st|nd|rd|th|er|\\.)?(?: of| de)? {_MONTH}(?: de|,)? \\d{{4}}",
    ):
        nfa.add_pattern(rule, shape, cue=_BIRTH_CUE, right="word")
    nfa.add_pattern(rule, f"(?i){_MONTH}\\.? \\d{{1,2}}(?:st|nd|rd|th)?,? \\d{{4}}", cue=_BIRTH_CUE, right="word")


def _crypto_address(nfa: Nfa, rule: int) -> None:
    base58 = nfa.add_rule(Rule("crypto_address", checks.base58_address))
    nfa.add_pattern(base58, "[13][1-9A-HJ-NP-Za-km-z]{25,34}", left="word", right="word")
    bech32 = nfa.add_rule(Rule("crypto_address", checks.bech32_address))
    nfa.add_pattern(bech32, "(?i)(?:bc|tb|ltc)1[02-9ac-hj-np-z]{38,60}", left="word", right="word")
    nfa.add_pattern(rule, "0x[0-9a-fA-F]{40}", left="word", right="word")


_KINDS: dict[str, Callable[[Nfa, int], None]] = {
    "email": _email,
    "iban": _iban,
    "credit_card": _credit_card,
    "ip_address": _ip_address,
    "mac_address": _mac_address,
    "crypto_address": _crypto_address,
    "coordinates": _coordinates,
    "date_of_birth": _date_of_birth,
    "phone": _phone,
}

TYPES = tuple(dict.fromkeys([*(k for k in _KINDS if k != "phone"), *(label for label, *_ in SHAPES), "phone"]))
"""All labels, in order of precedence where matches overlap."""


def compile_pii(types: Iterable[str] = TYPES) -> Automaton:
    """Compile the shapes of personal data. Raises `ConfigurationError` for an unknown type."""
    wanted = set(types)
    unknown = wanted.difference(TYPES)
    if unknown:
        raise ConfigurationError(f"there is no kind of personal data {min(unknown)!r}; known: {', '.join(TYPES)}")
    phonenumbers.PhoneMetadata.load_all()  # else the first number of each country would wait for its import
    nfa = Nfa()
    for label in TYPES:
        if label in wanted:
            _add(nfa, label)
    return Automaton(nfa, text.coded)


def _add(nfa: Nfa, label: str) -> None:
    if label in _KINDS:
        _KINDS[label](nfa, nfa.add_rule(Rule(label)))
    for _, pattern, check, cue in (shape for shape in SHAPES if shape[0] == label):
        left = "" if cue else "number"
        nfa.add_pattern(nfa.add_rule(Rule(label, check, nearly_revealed)), pattern, left=left, right="number", cue=cue)
