"""Tables of negations, for `negation.py`: what negates, what only looks like it, and what says it in a word."""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.judged.near_words import form

NEGATIONS = listed("not no never none nobody nothing nowhere neither nor without except unless")
PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "non-", "de", "anti", "anti-")
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
    empty | have leave
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
    blank empty dark | show display see
    missing gone | include come arrive contain
    cancel skip postpone reschedule | make come attend want need able
    stop quit cease end cancel | any anymore longer
    unused unwanted leftover remain spare | need want use any longer
    logged log sign throw kick | keep stay remain
    locked lock-out locked-out stuck | get enter access open into
    free vacant available empty | take occupy book reserve full
    walk-in walk-ins spontaneous spontaneously | book reserve appointment
    unlimited endless | limit end
    alone single unaccompanied | with companion adult accompany
    asleep awake | sleep wake
    unemployed jobless redundant | work job employ
    exempt free waive | pay have charge owe
    optional voluntary | have need must require compulsory
    frozen freeze hang unresponsive | respond move react work
    expire invalid outdated | valid
    hidden hide invisible | see show visible
    forget forgot omit left-out | remember include
    ignore | answer respond reply
    deaf | hear
    blind | see
    wireless cordless | cable wire
    vegan vegetarian | meat animal
    only just | but other else
    rarely seldom hardly | often much
    prevent avoid protect | get catch have become happen
    fail | able can manage do succeed
    refuse | want will let
    survive | die
    differ other another | same
    bald | hair
    alive | dead die
    single unmarried | marry
    lose lost | find have
    keep preserve save retain | lose delete
    safe safely gently painless painlessly humane | hurt harm pain injure
    secretly silently covertly discreetly | tell know notify ask notice
    refuse decline | eat drink take go come answer let
    plain bare | add
    stays remains unchanged unmodified as-is | change modify alter
    """.replace("\n    ", "\n")
    .strip()
    .splitlines()
]
"""Words that say what a negation of others says: "is missing", "did not arrive"."""
LACKING = frozenset(map(form, ("missing", "lack", "absent", "omit")))
"""Words that say of a thing what "without" and "no" say: "without the screws", "the screws are missing"."""
REPLACING = frozenset(map(form, ("instead", "substitute", "replace", "replacement", "alternative")))
"""Words that say that a thing is not used: "without buttermilk", "instead of buttermilk"."""
FREQUENT = listed("from into with your their this that want have need")
"""Words that something is not free of."""
BACKWARDS = listed("nothing nobody none nowhere")
"""Negations of the words before them as well: "shows nothing"."""
AFFIRMING = re.compile(
    r"\b(?:no|without(?: any| an?)?) (?:extra |additional |further )?(?:charges?|costs?|fees?)\b|\bwhy not\b"
    r"|\bno matter\b|\bno later than\b|\bor not\b|\bif not\b|\bno more than\b|\bnot more than\b|\bno less than\b"
    r"|\bnothing but\b|\bnone other\b|\bcan't wait\b|\bno doubt\b|\bif you don't mind\b|\bwhy don't (?:you|we)\b"
)
"""Phrases with a negation that say something positive: "at no charge", "no later than"."""
NEAR_NEGATION = 5
"""Words behind a negation among which it negates one."""
INTERJECTIONS = re.compile(
    r"\b(?:oh|ah) no\b|\b(?:no|not a|without a) (?:clue|idea)\b|\bno (?:thanks|problem|worries)\b"
)
"""Negations that deny nothing of what is asked."""
