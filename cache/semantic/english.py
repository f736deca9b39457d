"""What the fact guard knows of English: rewordings that never change what is asked, and words that always do.

A rule belongs here only if both sides ask for the same thing wherever they stand. "delete" and "remove" do not ("remove
from the list"), nor do "a" and "the", nor singular and plural.
"""

from __future__ import annotations

import re


def listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONTRACTIONS = {
    "can't": "can not",
    "cannot": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "i'm": "i am",
    "let's": "let us",
}
ENDINGS = (("n't", " not"), ("'re", " are"), ("'ve", " have"), ("'ll", " will"))
IS_SHORTENED = listed("what who where when how why that there it he she here")
"""After these, `'s` is "is"; after any other word it is a possessive."""

SPELLINGS = {
    "colour": "color",
    "favourite": "favorite",
    "centre": "center",
    "e-mail": "email",
    "e-mails": "emails",
    "grey": "gray",
    "okay": "ok",
    "ok": "ok",
    "tv": "television",
    "telephone": "phone",
    "purchase": "buy",
    "programme": "program",
    "licence": "license",
    "catalogue": "catalog",
    "cheque": "check",
    "analyse": "analyze",
    "wi-fi": "wifi",
    "aluminium": "aluminum",
    "tyre": "tire",
    "modelling": "modeling",
    "cancelled": "canceled",
    "travelling": "traveling",
    "labelled": "labeled",
}
ISE = listed("summar organ optim recogn minim maxim normal categor visual priorit apolog real general special standard")
"""Stems whose British `-ise` is spelled `-ize`."""

_TO_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
NUMBERS = {word: str(value) for value, word in enumerate(_TO_TWENTY.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "hundred": "100",
    "thousand": "1000",
    "dozen": "12",
}

UNITS = {
    "€": "eur",
    "euro": "eur",
    "euros": "eur",
    "$": "usd",
    "£": "gbp",
    "%": "percent",
    "milligram": "mg",
    "milligrams": "mg",
    "gram": "g",
    "grams": "g",
    "kilogram": "kg",
    "kilograms": "kg",
    "kilos": "kg",
    "meter": "m",
    "meters": "m",
    "metre": "m",
    "metres": "m",
    "kilometer": "km",
    "kilometers": "km",
    "kilometre": "km",
    "kilometres": "km",
    "centimeters": "cm",
    "centimetres": "cm",
    "hour": "h",
    "hours": "h",
    "minute": "min",
    "minutes": "min",
    "mins": "min",
    "second": "s",
    "seconds": "s",
    "secs": "s",
    "celsius": "C",
    "fahrenheit": "F",
    "°c": "C",
    "°f": "F",
}
"""Of a word right after a number."""

KEEPS_CASE = listed(
    """
    the us it who may march april june august polish turkey china mark bill rose will jordan chad mobile reading aids
    ram cat sap apple amazon windows java swift rust go python ruby perl shell target gap visa oracle spark mercury
    saturn mars jobs bush ford frank grant hope faith grace joy dawn orange nice cork bath lima cologne georgia word
    excel access teams meet slack zoom office guardian times independent
    """
)
"""Words that mean something else with a capital letter."""
ABOUT_LETTERS = listed(
    """
    letter letters case capitals capitalize capitalise uppercase lowercase upper lower spell spelling string
    strings reverse character characters decode encode word exact exactly literal regex anagram palindrome
    """
)
"""Where one of these stands, every capital letter counts."""

COURTESIES = [
    r"^(?:please|kindly) ",
    r"^(?:hi|hello|hey|hi there|hello there|good morning|good evening|thanks|thank you|ok|so|well)[,!.]+ ",
    r"(?<=[\w)]),? please$",
    r"[,.!?]+ (?:thanks|thank you|thanks in advance|many thanks|thank you very much|cheers)$",
    r"^(?:can|could|would|will) you (?:please |kindly )?"
    r"(?=(?:tell|explain|describe|list|give|show|write|translate|summari[sz]e|convert|help|find|compare|name|calculate"
    r"|compute|compose|draft|create|generate|suggest|recommend|provide|fix|correct|rewrite|check)\b)",
    r"^(?:i would|i'd) like to (?=(?:know|understand|learn)\b)",
    r"^i (?:would like|want|need) you to ",
    r"^i (?:want|need) to (?=(?:know|understand|learn)\b)",
    r"^(?:do|would) you (?:happen to )?know (?=(?:what|how|why|where|when|who|which)\b)",
    r"^(?:know|learn|understand) (?=(?:what|how|why|where|when|who|which)\b)",
    r"^(?:tell|show) me (?=(?:what|how|why|where|when|who|which)\b)",
    r"^(?:quick question|just curious|question)[:,]+ ",
    r"^let me know (?=(?:what|how|why|where|when|who|which)\b)",
    r"^help me (?:to )?(?=(?:write|draft|compose|understand|find|create|plan)\b)",
]
"""Taken away from lower-case text, again and again until none is left."""

ME = "(?:i|we|one)"
REWORDINGS = [
    (rf"^(?:explain|describe) (?:to me )?how (?:to|{ME} can) ", "how-to "),
    (rf"^how (?:do|can|could) {ME} ", "how-to "),
    (r"^how to ", "how-to "),
    (r"^what (?:are|is) (?:steps?|procedure|process|way|best way|right way) (?:to|for) ", "how-to "),
    (rf"^what (?:steps )?(?:should|do|must|can) {ME} (?:need to |have to )?(?:do|take|follow) to ", "how-to "),
    (r"^(?:give me|list|show me) (?:steps|instructions) (?:to|for) ", "how-to "),
    (rf"^in what way (?:do|can|could) {ME} ", "how-to "),
    (r"^is there (?:a|any) way to ", "is it possible to "),
    (
        r"^(?:is it possible for me|is there (?:a|any) way for me|am i able|would i be able|will i be able) to ",
        "can i ",
    ),
    (r"^could i ", "can i "),
    (r"^explain to me ", "explain "),
    (r"^(?:give me|provide) an explanation of ", "explain "),
    (r"^(?:give me|provide) a description of ", "describe "),
    (r"^(?:give me|provide|write|make|create) a summary of ", "summarize "),
    (r"^(?:give me|provide|show me|make|write) a?\s?list of ", "list "),
    (r"^what does (.+?) mean$", r"what is meaning of \1"),
    (r"^what do (.+?) mean$", r"what is meaning of \1"),
    (r"^what is meant by (.+)$", r"what is meaning of \1"),
    (r"^(?:give me|provide) (?:a )?(?:meaning|definition) of (.+)$", r"what is meaning of \1"),
    (r"^what is definition of ", "what is meaning of "),
    (r"^who (?:wrote|is author of|was author of) ", "who-wrote "),
    (r"^who (?:invented|is inventor of|was inventor of) ", "who-invented "),
    (r"^who (?:painted|is painter of|was painter of) ", "who-painted "),
    (r"^what is name of (?:person|author) who wrote ", "who-wrote "),
    (r"^which city is (?=capital of )", "what is "),
    (r"^(?:name|give me|tell me) (?=(?:capital|population|currency|meaning|boiling point|area) of )", "what is "),
    (r"^how come ", "what is reason that "),
    (r"^what is reason why ", "what is reason that "),
    (rf"^where (?:do|can|could) {ME} (?:find|locate) ", "where-find "),
]
"""Tried in this order on lower-case text without "the"; each at most once. How *should* I, how *would* I and how do
*you* are other questions; so are "which day is it" and "what is it"."""

MOVABLE = re.compile(
    r"^((?:at|in|on|for|during|since|as|with|using|if|when|after|before|without|according to) [^,]+), "
    r"((?:(?:at|in|on|for|to|from) (?:what|which)|what|how|why|where|when|who|which|is|are|do|does|did|can|could|will"
    r"|should) .+)$"
)
"""A clause that may stand before a question, with a comma, or after it."""

TURNS = listed(
    """
    not no never none nobody nothing nowhere neither nor without except unless only just even still yet already anymore
    more less most least fewer greater lower higher larger smaller bigger better worse best worst max min maximum
    minimum longest shortest highest lowest largest smallest oldest newest youngest fastest slowest cheapest top bottom
    before after until since during while above below over under up down out off into onto from within against between
    inside outside left right north south east west first last next previous former latter ascending descending forward
    backward enable disable install uninstall increase decrease raise reduce add remove subtract multiply divide plus
    minus times buy sell lend borrow receive import export upload download close stop lock unlock encrypt decrypt
    compress decompress allow deny permit forbid include exclude accept reject approve connect disconnect mount unmount
    attach detach subscribe unsubscribe follow unfollow push pull safe unsafe legal illegal valid invalid possible
    impossible positive negative true false active inactive incorrect correct incomplete irregular hot cold fast slow
    good bad public private internal external male female mother father son daughter brother sister win won lose lost
    all every each both either few many several always often sometimes rarely usually must should may might shall was
    were did had same different old new freezing melting boiling
    """
)
"""Words that turn a sentence round; the looser guard compares these besides names, numbers and quotations."""

COMMON_FIRST = listed(
    """
    a an the is are was were do does did can could will would should may might must have has had how what when where who
    why which whose if in on at for from to with by my your our his her their this that these those there i we you they
    he she it please list give show tell write explain describe summarise summarize translate convert compare name find
    send book set add remove delete create make use return calculate compute compose draft suggest recommend provide
    define fix correct rewrite check update change enable disable install uninstall increase decrease allow deny turn
    open close start stop let help hi hello thanks and or but not no yes after before during sort generate classify
    extract order buy sell move copy print run schedule remind call email pay refund cancel transfer
    """
)
"""Words that often begin a sentence: their capital letter makes no name of them."""
