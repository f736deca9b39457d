"""Tables of what no judge may waive, for `protected.py`: units, negations, opposites, quantities, persons, names."""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.judged.near_words import form

NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
UNIT = re.compile(r"(\d)(\s*)([^\W\d_]{1,4}|[%€$£°])(?![^\W_])")
UNITS = listed(
    """
    mm cm dm km in ft yd mi mg kg lb lbs oz st ml cl dl gal pt qt tsp tbsp cup cups min h hr hrs s sec ms day days
    week year am pm kb mb gb tb pb bit bits byte hz khz mhz ghz kw kwh mw gw wh v kv mv a ma mah ah w pa kpa bar psi n j
    kj cal kcal c f k deg eur usd gbp chf jpy inr aud cad cny sek nok dkk pln kph kmh mph fps rpm db ppm mol px dpi ppi
    pts pct ha sqm sqft mil bn
    """
)
"""What measures a number that stands before it with a space; letters that stand on the number always do."""
SHORT_WORDS = listed("a am an as at be by do go he i if in is it me my no of on or so to up us we")
"""Words of one or two letters that measure nothing, besides the listed units."""
EVERY = re.compile(r"[^\W_]+(?:[-'.+#/][^\W_]+)*(?:\+\+|#)?")
NEGATIONS = listed("not no never none nobody nothing nowhere neither nor without except unless")
PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "non-", "de", "anti", "anti-")
OPPOSITES = [
    tuple(frozenset(side.split()) for side in row.split("|"))
    for row in """
    enable activate allow permit | disable deactivate deny forbid block ban
    install | uninstall
    increase raise gain grow rise | decrease reduce lower lose shrink drop fall cut
    add create insert include open start begin enter | remove delete exclude close stop end exit
    buy purchase | sell rent lease
    rent | sell buy purchase own
    lend | borrow
    upload import push send | download export pull receive
    lock encrypt compress hide | unlock decrypt decompress extract show
    accept approve | reject decline refuse
    connect attach mount subscribe join | disconnect detach unmount unsubscribe leave
    renew extend keep | cancel terminate end stop
    upgrade | downgrade
    advantages advantage benefits benefit pros | disadvantages disadvantage drawbacks drawback cons downsides risks
    strengths strength | weaknesses weakness
    positive good best better | negative bad worst worse
    maximum most highest largest biggest longest tallest greatest | minimum least lowest smallest shortest
    oldest | youngest newest
    fast faster fastest quick quicker | slow slower slowest
    more greater above over | less fewer below under
    cheap cheaper cheapest | expensive dearer
    hot heat boiling | cold cool freezing melting
    before until earlier | after since later
    first | last second third final
    next upcoming | last previous
    left | right
    north | south
    east | west
    top upper up | bottom down
    on | off
    in into inside indoor indoors | out outside outdoor outdoors
    win won | lose lost
    true correct right legal safe | false wrong incorrect illegal unsafe dangerous
    male man men boy father son brother husband | female woman women girl mother daughter sister wife
    morning am | evening night pm
    today | tomorrow yesterday
    ascending | descending
    causes cause | symptoms treatments treatment prevents cures effects cure
    plus | minus times
    multiply | divide
    basic free | premium pro paid
    new | used old
    front | rear back
    internal private | external public
    summer | winter
    username | password
    shipping | billing
    domestic | international
    freeze pause suspend | cancel delete terminate
    always | sometimes rarely
    horizontal | vertical
    input | output
    source | target destination
    parent | child
    all every each whole entire | some any half few
    minute minutes | hour hours second seconds
    """.replace("\n    ", "\n")
    .strip()
    .splitlines()
]
ASKED_AMOUNTS = [
    (re.compile(r"\b(?:how many times|times) (?:a|an|per|each|every) (?:day|week|month|year)\b"), "how often"),
    (re.compile(r"\b(?:how many|number of) (?:days|weeks|months|years|h|min|hours|minutes)\b"), "how long"),
    (re.compile(r"\b(?:which|what) (?:day|week|month|year)\b|\bfirst day of\b|\blast day of\b"), "when"),
    (re.compile(r"\btimes? of (?:year|day)\b"), "when"),
    (re.compile(r"\b(?:vacation|holiday|leave) days\b|\bdays off\b|\bannual (?:leave|vacation)\b"), "leave"),
]
"""Ways to ask how often, how long and when, whose units of time are no quantity."""
UNIT_ASKED = re.compile(r"\b(?:how many|number of) (days?|weeks?|months?|years?|h|min|hours?|minutes?|s|seconds?)\b")
NO_LABELS = listed(
    "a an the at in on of to for from by with after before than and or is are every per about until since"
)
QUANTITIES = tuple(
    listed(row)
    for row in """
    half
    only
    both double double-sided two-sided
    either
    few
    today tonight
    tomorrow
    yesterday
    week weekly weeks
    month monthly months
    year yearly annual years
    day daily days
    """.strip().splitlines()
)
"""Where one text has a word of one, the other must have one, too."""
PERSONS = (
    (listed("he his him"), listed("son father dad brother husband man boy boyfriend uncle grandfather nephew guy")),
    (
        listed("she her hers"),
        listed("daughter mother mom sister wife woman girl aunt grandmother niece lady"),
    ),
)
"""Pronouns of a person, and what they may stand for."""
NEGATED = [
    tuple(frozenset(map(form, side.split())) for side in row.split("|"))
    for row in """
    missing lost gone late overdue delayed | arrive come receive get got find there here
    broken faulty defective dead down crash stop problem trouble issue error | work function respond start open load
    fail flunk | pass succeed work
    close closed shut | open
    cold | warm hot heat
    warm hot | cool cold
    stuck jam frozen | move open close turn respond
    absent away ill sick | come attend be
    unsubscribe cancel stop quit terminate opt-out | want need
    unsubscribe opt-out | receive get
    silent quiet mute | hear
    empty out | have leave
    unable impossible | can possible able
    illegal forbid ban prohibit | allow legal may can permit
    forgot forget | know remember
    decline reject refuse | accept approve
    blank black | show see
    wrong incorrect false | right correct true
    stay remain | drain leave go
    avoid prevent | get have become be
    blunt dull | sharp cut
    lack | have contain include
    skip miss | go attend take
    differ difference different | have include offer same
    disable off | on
    down offline | have
    flow continue | stop end
    miss | make reach catch
    silent quiet | come sound
    safe safely | danger dangerous risk harm
    free | have contain
    """.replace("\n    ", "\n")
    .strip()
    .splitlines()
]
"""Words that say what a negation of others says: "is missing", "did not arrive"."""
NEAR_NEGATION = 5
"""Words behind a negation among which it negates one."""
NAMES_TOO = listed(
    """
    rob sue jack pat art chase hunter mason grant amber ruby crystal daisy lily iris ivy holly olive violet max drew
    wade chip dale cliff dean earl gene guy hank lance miles nick norm ray reed rich robin rusty skip sterling stone
    ward penny carol ginger heather melody misty sandy sunny baker cook page taylor carter
    """
)
"""Names that are words as well, besides those of `KEEPS_CASE`."""
ORDINARY = listed(
    """
    somebody someone anybody anyone nobody everybody everyone something anything everything whom whose within without
    while because since although though unless until during about above across against along among around behind below
    beneath beside between beyond by despite inside into near off onto out outside over past per through toward under
    upon via whether every each some any all both either neither another other such many much more most several few
    here there we're we've we'd we'll you're you've they're
    they've isn't aren't wasn't weren't don't doesn't didn't can't won't wouldn't couldn't shouldn't haven't hasn't
    hadn't ok okay is are was were am be been being having doing going getting making using taking trying looking
    wanting maybe perhaps sometimes usually often always never again also too only just still yet already currently
    recently today tomorrow yesterday tonight now soon later first second last next new old good bad best better worst
    easy urgent quick simple possible necessary important available required allowed
    """
)
"""Words that name nothing where they begin a sentence, besides the lexicon's."""
SAME_NAMES = {"wi-fi": "wifi", "wlan": "wifi", "wireless": "wifi", "okay": "ok", "tvs": "tv", "television": "tv"}
ALIKE_REPLACED, ALIKE_ADDED = 4, 2
"""Most words that only one of two texts has where they are worded alike."""
SPELLED_OUT = {
    name: listed(words)
    for name, words in {
        "atm": "cash cashpoint machine dispenser", "pc": "computer laptop notebook machine",
        "id": "identity identification", "tv": "television telly set", "cv": "resume curriculum",
        "uk": "britain kingdom british", "usa": "america states us", "us": "america states usa",
        "eu": "europe european union", "gp": "doctor physician", "hr": "personnel resources human",
        "pto": "leave vacation time", "wfh": "home", "sms": "text message texts", "faq": "questions",
        "asap": "soon possible", "eta": "arrive arrival", "vat": "tax", "ceo": "boss chief",
    }.items()
}  # fmt: skip
"""Abbreviations that are words rather than names, and words that another text may have for them."""
GENERIC_YOU = re.compile(r"\b(?:do|can|could|will|would|are|should|must|if|when|does|may) you\b")
"""Where "you" is anybody, or the shop that is asked: "can I bring a dog" and "do you accept dogs" ask one thing."""
SUBTRACTS_NOTHING = listed(
    """
    a an my our your the any some do does did is are be was were can could should would will may must have has had i me
    we us you it there this that to of for from get let need want use obtain please so also now already then people
    person one thing someone somebody
    """
)
"""Words that may be added to a question without asking for something else; the judge decides whether they do."""
FIRST, SECOND = listed("i my me mine we our us"), listed("you your yours")
COMMON = listed(
    "earth sun moon internet web ok okay tips steps until what who where how it that best good great top many much also"
    " about explain i'd i'm i've i'll"
)
"""Words that begin a sentence, or are written with a capital anywhere, and name nothing."""
WEEKDAYS = listed("mondays tuesdays wednesdays thursdays fridays saturdays sundays")
INTERJECTIONS = re.compile(
    r"\b(?:oh|ah) no\b|\b(?:no|not a|without a) (?:clue|idea)\b|\bno (?:thanks|problem|worries)\b"
)
"""Negations that deny nothing of what is asked."""
KEEP_FROM = re.compile(r"\bkeep(?= (?:\S+ ){0,4}?from \S+ing\b)")
"""Where "keep" means "stop"."""
FIRST_WORD = re.compile(r"(?:^|(?<=[.!?] ))((?:[^\W_]|['-])+)")
NO_ADVERBS = listed(
    "family italy july reply supply apply fly rely bully jelly belly lily assembly only sicily emily kelly molly sally"
)
"""Words in -ly whose place in a question counts."""
DIRECTION = re.compile(
    r"(?<![\w-])(from|to|into|before|after|than|against|with|without|by) (?:a |an |my |your )?([^\W_]+)"
)
