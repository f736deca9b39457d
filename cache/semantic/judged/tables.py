"""Tables of what no judge may waive, for `protected.py`: units, negations, opposites, quantities, persons, names."""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed

NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
EVERY = re.compile(r"[^\W_]+(?:[-'.+#/][^\W_]+)*(?:\+\+|#)?")
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
    "a an the at in on of to for from by with after before than and or is are every per about until since between past"
    " till under over above below around only just"
)
QUANTITIES = (listed("half"), listed("double double-sided two-sided"))
"""Where one text has a word of one, the other must have one, too."""
TIMES = tuple(
    listed(row)
    for row in """
    today tonight
    tomorrow
    yesterday
    weekend weekends
    week weekly weeks fortnight
    month monthly months
    year yearly annual years
    day daily days overnight
    """.strip().splitlines()
)
"""Where each of two texts has a word of a row that the other has not, they ask about other times."""
PERSONS = (
    (listed("he his him"), listed("son father dad brother husband man boy boyfriend uncle grandfather nephew guy")),
    (
        listed("she her hers"),
        listed("daughter mother mom sister wife woman girl aunt grandmother niece lady"),
    ),
)
"""Pronouns of a person, and what they may stand for."""
ALIKE_REPLACED, ALIKE_ADDED = 4, 2
"""Most words that only one of two texts has where they are worded alike."""
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
NO_OPPOSITES = [
    (re.compile(r"\bkeep(?= (?:\S+ ){0,4}?from \S+ing\b)"), "stop"),
    (re.compile(r"\b((?:do|does|can|will|would) (?!i\b|we\b|one\b)(?:\S+ ){1,4}?)sell\b"), r"\1buy"),
    (re.compile(r"\b((?:do|does|can|will|would) (?!i\b|we\b|one\b)(?:\S+ ){1,4}?)lend\b"), r"\1borrow"),
    (re.compile(r"\b((?:until|till|how late) (?:\S+ ){1,8}?)open\b"), r"\1close"),
    (re.compile(r"\bopen(?= (?:until|till)\b)"), "close"),
]
"""What is said from the other side: "keep from" doing is to stop, what "you sell" I can buy, "open until" is when it
closes."""
ON, OFF = listed("on"), listed("off")
SWITCHED = listed("turn switch power put keep stay leave is are be light set goes go come")
"""Words beside which "on" and "off" are opposites."""
DIRECTION = re.compile(
    r"(?<![\w-])(from|to|into|before|after|than|against|with|without|by) (?:a |an |my |your )?([^\W_]+)"
)
