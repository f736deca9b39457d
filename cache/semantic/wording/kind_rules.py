"""How the kind of a question is told: constructions that ask one thing of whatever they name.

Tried in order on the words that `meaning.py` leaves, each at most once. A rule moves the kind to the front and leaves
what is named; it never drops a number, a name, a negation or a direction.
"""

from __future__ import annotations

from sluicegate.cache.semantic.wording.rewriting import Becomes

# ruff: noqa: E501
_FAULT = r"(?:broken|lag|crash|freeze|freeze-up|leak|drip|squeak|smell|beep|flicker|overheat|jam|stuck|frozen|blocked|clogged|slow|loud|blurry|dead|cracked|stolen|lost|locked|wet|dirty|empty)"
_AILMENT = r"(?:a |my )?(?:hiccup|cough|headache|snore|snoring|acne|heartburn|nausea|cold|nosebleed)s?"

RULES: list[tuple[str, Becomes]] = [
    # Trouble.
    (r"^(?:what-to-do if|what-to-do when|how-to (?:fix|repair|solve|resolve)) (?=.)", "trouble "),
    (rf"^(my .+ {_FAULT})(?: (?:what|how)(?: (?:now|incorrect|repair|fix|do|that|should|to))*)?$", r"trouble \1"), (r"^not-working ", "trouble broken "),
    (r"^what helps? (?:against|with|for) ", "how-to remove "), (r"^what (?:can |to do |do )?(?:i )?(?:do )?against ", "how-to remove "), (rf"^how-to (?:stop|treat|cure|cure-disease|remove|fight|relieve|combat) (?={_AILMENT}$)", "help "),
    # What a thing costs.
    (r"^(?:what is|what are|what) (.*?)(?<![\w-])(?:price|fee|cost|fare)s?((?: (?:in|on|at|for|of|from|to|per-\w+|with|without) ?.*)?)$", r"cost \1\2"), (r"^price-to ", "cost "), (r"^fee-for ", "cost "), (r"^how much (?:do|does)? ?(?:i )?(?:need to |need-to |must )?pay (?:for )?", "cost "),
    # How long, how often, how many, how much.
    (r"^(?:for )?how long ", "long "), (r"^duration (?:of )?", "long "), (r"^what is (.+) duration((?: .+)?)$", r"long \1\2"), (r"^how often ", "often "),
    (r"^how many (.+?) (?:are there|are-there|there are|exist)\b", r"many \1"), (r"^how many ", "many "), (r"^what is (?:number|count|amount) of ", "many "), (r"^what is (.+) count((?: .+)?)$", r"many \1\2"),
    (r"^(?:what is )?(.+?) amount recommended$", r"much \1"), (r"^recommended (.+) amount", r"much \1"), (r"^how much ", "much "),
    (r"^limit (?:of |for |on )?", "max "), (r"^what is (.*)\b(?:maximum|max)\b(.*)$", r"max \1\2"), (r"^what is (.*)\bminimum\b(.*)$", r"min \1\2"),
    # May I, is there.
    (r"^may-i ", "able "), (r"^whether (.+?) (?:allowed|permitted)(?= |$)", r"permitted \1"), (r"^whether (.+?) possible(?= |$)", r"able \1"), (r"^whether (?:hotel|restaurant|store|airline|you) (?:permit|allow|accept) ", "permitted "),
    (r"^offer ", "has "), (r"^whether there ", "has "),
    # What is needed.
    (r"^what need (?:to i |i |to )?(.+)$", r"what-need \1"), (r"^what (.+) (?:need|needed|required|necessary)(?![\w-])(?: to| for)? ?(.*)$", r"what-need \1 \2"), (r"^what is (.+) requirement$", r"what-need \1"), (r"^what (?:is )?(?:required|needed|necessary) (?:is )?(?:for|to) ", "what-need "),
    # Where, by when, why, what the difference is.
    (r"^where (?:see|view|check|read|look-up) ", "where-find "), (r"^in what (?:place|location) ", "where "), (r"^what is (.+) location$", r"where \1"),
    (r"^by-when ", "due "), (r"^deadline (?:of |for )?", "due "), (r"^when (.+) due$", r"due \1"), (r"^hours (?:of )?", "hours "),
    (r"^what causes? (?:of )?", "why "), (r"^what (?:caused|did cause of) ", "why did "), (r"^what (?:could |can )?(?:make|making) ", "why "), (r"^what (?:is )?(?:incorrect|wrong) with (?:my )?(.+)$", r"why \1 broken"),
    (r"^(?:explain|how-works|how does) ", "explain "), (r"^what is difference between ", "difference "), (r"^whether (.+) and (.+) (?:same|identical|different)$", r"difference \1 and \2"),
    (r"^ingredients? (?:of |for )?", "ingredients "), (r"^recipe for ", "recipe "),
]  # fmt: skip
