"""Verbs that mean the same of some objects: "close my account" is "delete my account", "close the window" is neither.

A row is: the verbs, of which the first stands for all, and the last words of what they may be done to ("*": anything).
Antonyms never stand in one row, and a verb that is not in a row of its object stays as it is.
"""

from __future__ import annotations

import re

from sluicegate.cache.semantic.english import listed

_ROWS = """
cancel terminate end stop quit discontinue | subscription membership plan contract trial
delete remove erase close terminate | account profile
delete remove erase | file folder message email photo row column entry post comment history cookie
change update modify edit alter amend | address email number name detail information profile
change update modify edit alter amend | username preference setting card method
change modify alter amend edit | order booking reservation appointment
change switch | plan provider language theme
reset recover restore | password
undo revert | commit change merge
contact reach | support
create open register make set-up | account
get obtain receive request claim | refund reimbursement
get obtain | visa passport licence license permit certificate copy
return send-back | item product purchase order
download obtain get | invoice receipt statement
fix repair mend | *
close shut | *
fix resolve solve troubleshoot | error problem issue bug
book reserve | table room flight hotel ticket seat appointment
schedule book arrange make | appointment meeting
lose shed drop | weight pound kilo
improve enhance boost | skill performance memory speed quality health sleep focus productivity
reduce lower decrease | *
increase raise boost | *
merge combine join | list dictionary table file dataframe pdf
sort order | list array dictionary
calculate compute | *
use utilize | *
buy purchase | *
begin commence start | *
check verify see view | balance
view see check access | history statement grade result schedule payslip bill timetable score record report
configure set-up setup | *
activate enable turn-on switch-on | *
deactivate disable turn-off switch-off | *
log-in sign-in login | *
log-out sign-out log-off sign-off logout | *
sign-up register enroll | *
unsubscribe opt-out | *
submit file send lodge | complaint claim
learn study | *
choose select | *
understand comprehend | *
prevent avoid | *
protect safeguard | *
save conserve | energy water electricity
locate find | *
finish complete | *
show display | *
book reserve | *
delete remove erase | comment tag record line file app video branch directory
delete remove | duplicate row column element character space item key entry
cancel annul | flight booking reservation order
cancel call-off | meeting event wedding trip
change move reschedule | meeting appointment
renew extend | passport license licence permit visa
request apply-for ask-for | leave refund visa loan extension quote
submit hand-in turn-in | essay homework assignment paper thesis report timesheet application form
return hand-in bring-back give-back take-back | book key equipment laptop card
quit resign leave | job
make do complete | payment
make prepare cook | dinner lunch breakfast meal dish soup curry pasta rice stew sauce
make bake | bread cake cookie pie pizza muffin
buy purchase order | ticket
pay settle | bill invoice fine rent
transfer send wire move | money fund
add invite | user member colleague coworker teammate
report file | accident theft claim complaint
enter apply use redeem | voucher coupon promo-code
open launch start | app program
exit close quit leave | app program vim
stop kill end terminate | process container server job script
run execute start launch | script program command test query
install set-up | printer router app program
update upgrade | app software firmware driver windows
back-up save | data file photo contact phone
restore recover retrieve get-back | file photo data account message contact
unlock unblock | phone card account
block ban | user caller number sender
connect pair link hook-up | headphone printer speaker phone controller keyboard mouse
change switch swap | language tire battery plan
change set | language time-zone timezone clock
clear delete empty | cache history cookie
free-up clear | space storage memory
increase extend expand | storage limit memory
remove get-out take-out | stain
clean wash | car window hand dish
clear unblock unclog | sink drain toilet pipe
remove delete uninstall | app program
read load | csv file json
read parse load | json xml yaml
loop iterate go | list array dictionary
print display output show | list array table
convert change turn transform cast | string integer float list array
concatenate join combine | string list
split divide | string text
find locate search-for look-up | word file substring order record
count tally | word line row
compare diff | file list string
create make generate build | table list array file folder directory branch report chart
center centre | div text
improve raise increase | score grade
lower reduce bring-down get-down | fever pressure cholesterol temperature
treat cure heal | cold burn rash wound cut blister
relieve ease soothe | pain ache itch
make arrange schedule book get | appointment
see visit go-to consult | doctor physician dentist
take use | medicine ibuprofen aspirin antibiotic pill
water irrigate | plant lawn garden
cut trim mow | grass lawn
""".strip()


IE = listed(
    """
    cookies movies calories brownies zombies pies ties lies cries hoodies selfies smoothies
    """
)

NOT_E = listed("potatoes tomatoes mosquitoes peaches coaches beaches reaches teaches breaches poaches roaches")


KEPT_NUMBER = listed(
    """
    glasses customs goods arms means times jeans pants scissors shorts series species news contents thanks always
    perhaps besides afterwards sometimes hers ours theirs yours savings earnings damages belongings surroundings
    headquarters works lens trousers tights pyjamas pliers tweezers manners papers looks spirits grounds premises
    remains stairs brains draughts darts https ftps smtps imaps ldaps rtmps coaps mqtts sips
    """
)
"""What is no plural, or means something else in the singular."""


def singular(word: str) -> str:
    """Return a noun without its plural ending; other words unchanged."""
    if len(word) < 4 or not word.isalpha() or word.endswith(("ss", "us", "is", "ics")) or word in KEPT_NUMBER:
        return word
    if word in IE or (word.endswith(("shoes", "toes", "aches")) and word not in NOT_E):
        return word[:-1]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("xes", "ches", "shes", "sses", "zzes", "oes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") else word


WITH_E = listed(
    """
    activate advise approve arrange bake become believe browse cache calculate capture cause change charge
    choose close code combine compare compile complete compose compute concatenate configure convince create
    customize deactivate debate decide declare declutter decline decrease define delete describe disable
    divide donate encode enable encourage enhance erase escape estimate evaluate examine excuse exercise
    explore expose file finalize finance force generate give glue grade handle have hide hire ignore imagine
    improve include increase initialize inquire invite invoice iterate judge leave like live locate lose make
    manage measure merge migrate minimize move mute navigate negotiate note notice operate optimize organize
    package page parse paste phase place practice practise prepare prescribe produce programme promote
    pronounce prove provide prune purchase rate receive recharge recognize recycle reduce refinance release
    relocate remove rename renegotiate replace require reschedule resize resolve restore resume retrieve
    retire reuse reverse ride save scale schedule score scrape secure separate serve settle shape share shave
    simulate slice smoke solve state store style subscribe substitute summarize survive syndicate tape taste
    terminate tie trace trade translate type ununsubscribe update upgrade use utilize vaccinate validate vote
    wake waste wipe write
    """
)
"""Verbs that drop an "e" before "ing"."""
DOUBLED = listed("add err ebb butt")
"""Verbs that end in two of a letter themselves."""
ENDS_IN_E = re.compile(r".+(?:[bcdfgkptz]l|[aeiounr]c|v|[^z]z|[dr]g|[^aeiou]at|[nr]s|[^o]ut|[^o]ur|[^o]os|[^aeiou]as)")
"""Verbs that drop an "e" before "ing", by their letters."""
SHORT = re.compile(r"[^aeiou]*[aeiou][bcdfgklmnprstvz]")


def stem(verb: str) -> str:
    """Return a verb without the ending "ing". A short one of which it is not known whether it had an "e" keeps it:
    "taping" might be "tape" or, misspelled, "tap"."""
    if not verb.endswith("ing") or len(verb) < 6:
        return verb
    base = verb[:-3]
    if base + "e" in WITH_E or (len(base) > 4 and ENDS_IN_E.fullmatch(base)):
        return base + "e"
    if base[-1] == base[-2] and base[-1] not in "aeiouflsz" and base not in DOUBLED:
        return base[:-1]
    return verb if SHORT.fullmatch(base) else base


def _table() -> dict[str, list[tuple[frozenset[str], str]]]:
    """Return for each verb's stem its sets of objects, each with the representative stem."""
    found: dict[str, list[tuple[frozenset[str], str]]] = {}
    for row in _ROWS.splitlines():
        verbs, objects = (part.split() for part in row.split("|"))
        for verb in verbs[1:]:
            found.setdefault(stem(verb), []).append((frozenset(map(singular, objects)), stem(verbs[0])))
    return found


_VERBS = _table()
_STANDS = {stands for rows in _VERBS.values() for _, stands in rows}


def is_known(verb: str) -> bool:
    """Return whether `verb`, a stem, is in the lexicon."""
    return verb in _VERBS or verb in _STANDS


def verb_of(verb: str, of: str) -> str:
    """Return the representative of `verb`, a stem, for the object `of`, a singular noun."""
    for objects, stands in _VERBS.get(verb, ()):
        if of in objects or "*" in objects:
            return stands
    return verb
