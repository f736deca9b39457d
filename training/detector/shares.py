"""How many texts of each kind the heads learn from, and how much each counts."""

from __future__ import annotations

from dataclasses import dataclass

SEED = 0
COST = {"injection": 0.4, "document": 1.0, "harm": 4.0}
"""The less, the flatter the weights. With many texts of other authors less finds more at the same alarms (0200). Head
`harm` counts each n-gram once and is capped, so that more is needed to tell its classes apart (0266)."""
REQUESTS = {
    "task": 4000, "everyday": 1200, "code": 900, "play": 700, "long_play": 1500, "mail": 600, "sum": 400,
    "puzzle": 60, "alike": 1500, "tongue": 1200, "turn": 1800, "agent": 2000,
}  # fmt: skip
"""How many harmless requests of each kind (`requests`)."""
WIDER_REQUESTS = {**REQUESTS, "wrapped": 3000}
"""The same for the member of head `injection` that reads concepts."""
CONCEPT_SHARE = 0.5
"""Of that member in head `injection`. It counts each feature of a window once: it alone learns from packages, and what
keeps long harmless texts quiet there loses attacks in the other (0205)."""
PART_SHARE = {"injection": 0.4, "document": 0.0, "harm": 0.0}
"""Of a text's worst short part in its score (0200)."""
RIVAL_SHARE = 0.6
"""Of the lowest of the rivals in the linear part of head `injection`. An attack is one to all of them, a harmless text
that rings mostly to some (0219)."""
RIVAL_WEIGHT = 1.5
"""Of the harmless sources that a rival learns from, as it learns from half of them."""
NETWORK_SHARE = 0.05
NETWORK_SCALE = 0.385
"""What brings the network's scores to the spread of the linear ones."""


@dataclass(frozen=True, slots=True)
class Special:
    """What one specialist of a head learns: the attacks of these sources (`Item.source`), which count
    `weight` as much as elsewhere, beside all harmless texts. `behind`: how far its scores stand behind those of the
    others."""

    sources: frozenset[str]
    weight: float
    behind: float = 0.0


def _of_lines(*sections: str) -> frozenset[str]:
    return frozenset(f"gen:line_{section}" for section in sections)


_PARTED = (
    "ar", "bn", "de", "es", "fa", "fil", "fr", "hi", "id", "it", "ja", "ko", "pt", "ru", "tr", "uk", "vi", "zh",
)  # fmt: skip
"""Languages with many lines, but Thai, whose words are not parted."""
SPECIALS = {
    "injection": (
        Special(frozenset({"jailbreak_inthewild", "injection_cse_en", *_of_lines("far_long", "far_persona")}), 1.0),
        Special(frozenset({"injection_cse_en", *_of_lines("far_en", "far_code", "far_game", "far_task")}), 1.5),
        Special(_of_lines(*(f"far_{more}{code}" for more in ("", "more_") for code in _PARTED)), 1.0, 0.15),
    ),
    "harm": (Special(_of_lines(*(f"harmful_{code}" for code in (*_PARTED, "th"))), 1.0, 0.1),),
}
"""Of head `injection`: jailbreaks and attacks as the sets hold them, English attacks as players and users type them
(0263), and attacks in other languages, without Thai, where messages of programs would ring. Of head `harm`: requests in
other languages (0266)."""
SPECIAL_COST = {"injection": 0.25, "harm": 1.0}
WORDINGS = 4
"""How often a template is filled with passages of ours."""
DOCSTRINGS = 2000
GENERATED = {
    "attack": 3600,
    "framed": 2500,
    "brief": 600,
    "wrapped": 1500,
    "harmless": 3000,
    "look_alike": 1000,
    "harmful": 3500,
    "safe": 3500,
    "risky": 4000,
    "fair": 4000,
    "document": 700,
}
HARM_DRAWS = 3
"""How many times as many for head `harm`, each at a third of its weight: by which texts a seed drew, its limit moved by
what five of 94 harmful requests are (0266)."""
GENERATED_WEIGHT = {"injection": 0.3, "document": 0.5, "harm": 0.05}
LINES_EACH = {
    "harmless": 8, "attacks": 8, "short": 40, "abroad": 12, "afar": 12, "home": 12, "daily": 12, "forms": 8,
    "far": 6, "near": 6, "plain": 6, "english": 6, "twins": 6, "prompts_abroad": 6,
}  # fmt: skip
"""How many texts are drawn of each line of the files of `phrases/lines`; short ones have many choices."""
SPECIAL_LINES_EACH = {
    "injection": {"english_more": 6, "twins_more": 6, "tongues": 6, "tongue_twins": 6},
    "harm": {"harmful_abroad": 4},
}
"""The same of those that specialists alone learn from: in a head for everything they cost attacks of other kinds
(0262)."""
TOOL_LINES_EACH = 12
"""The same of the file `tools`, for head `document` alone: what frameworks say between turns stands in results of
tools, too (0258)."""
HARM_LINES_EACH = {
    "harmful": 4, "fair": 4, "tongue_twins": 1, "harmless": 1, "near": 1, "home": 1, "daily": 1, "forms": 1, "twins": 1,
}  # fmt: skip
"""The same of the files that head `harm` learns from."""
ATTACK_LINES = frozenset(
    {"attacks", "abroad", "afar", "far", "english", "english_more", "tongues", "harmful", "harmful_abroad"}
)
LINE_WEIGHT = {
    "harmless": 0.3, "attacks": 0.1, "short": 0.3, "abroad": 0.05, "afar": 0.02, "home": 0.2, "daily": 0.2,
    "forms": 0.2, "planted": 0.3, "tongue": 0.45, "worldwide": 0.45, "imagine": 0.45, "game": 0.45, "encode": 0.45,
    "translate": 0.45, "prompts": 0.45, "form": 0.45,
    "far": 0.02, "far_es": 0.015, "far_fil": 0.015, "far_hi": 0.015, "far_ar": 0.03, "far_bn": 0.03, "far_ru": 0.03,
    "far_th": 0.05, "far_ko": 0.06, "far_ja": 0.06, "far_uk": 0.03, "far_fa": 0.03, "far_el": 0.03, "plain": 0.1,
    "near": 0.2, "near_es": 0.25, "near_fil": 0.25, "near_zh": 0.3, "near_ja": 0.3, "near_hi": 0.4,
    "english": 0.05, "far_code": 0.1, "twins": 0.4, "near_en": 0.3, "near_retry": 0.8, "prompts_abroad": 0.2,
    "english_more": 0.1, "twins_more": 0.4, "near_turns": 0.8, "tongues": 0.1, "tongue_twins": 0.8,
}  # fmt: skip
"""By file, or by section where one has a weight of its own. Attacks in many languages count little, and the harmless
twins in `home` more: else a language itself becomes a sign of an attack (0223). So it did for short questions and
wishes of every day, until those in `daily` were there (0231). The twins of English attacks count most: else a lively
style is a sign of one (0260)."""
HARM_LINE_WEIGHT = {
    "harmful": 0.04, "harmful_abroad": 0.25, "fair": 0.5, "fair_en": 0.3, "tongue_twins": 0.2, "harmless": 0.1,
    "near": 0.1, "home": 0.1, "daily": 0.1, "forms": 0.1, "twins": 0.1,
}  # fmt: skip
"""The same in head `harm`."""
REQUEST_WEIGHT = 0.6
"""Of our own requests in head `injection`."""
TONGUE_WEIGHT = 1.5
"""How much more those in other languages count, as capped weights find more in translated attacks than is needed."""
BRIEFS = 2500
"""Long harmless orders to a model (`briefs`), for head `injection` alone."""
FRAMES = {"frame_attack": 3000, "frame": 3000}
"""Long attacks that give a model a part, and their harmless twins (`frames`), for head `injection` alone."""
FRAME_WEIGHT = 0.3
FIGURES = 1000
LONG_TONGUES = 1500
"""Requests of many sentences in one language. These and `FRAMES` have draws of their own, as `lines` have."""
PACKAGE_WEIGHT = 0.2
FIRST_PACKAGE_WEIGHT = 0.08
"""Texts of other authors (`packages`), for the member that reads concepts, and for the first: there they count less, as
jailbreaks of other authors are lost with them (0200), of which fewer are since attacks stand beside them (0250)."""
PASSAGE_WEIGHT = 0.45
PASSAGES = 40
"""Long passages of translated messages, so many of a language."""
SAID_WEIGHT = 0.2
"""What users say in those packages, for both members."""
ATTACK_WEIGHT = 0.1
"""Attacks of other authors (`attack_packages`), for both members. At 0.2 more of what is known by its manner is found,
and less in languages that these authors do not write (0233)."""
PRESSING_WEIGHT = 0.02
"""Of those that press on harmless texts of the measured sets (0246)."""
NEAR_WEIGHT = 0.2
"""Harmless texts that other authors wrote beside their attacks, for both members."""
FRAMED_WEIGHT = 0.06
"""Attacks within harmless requests. At full weight plain questions at the end of tasks become suspicious."""
BRIEF_WEIGHT = 0.06
"""Attacks of a few words. At full weight each of their words weighs so much that role-play becomes suspicious."""
WRAPPED_WEIGHT = 0.1
"""Attacks in the wrapping of harmless wishes, which must not count as one."""
RISK_WEIGHT = 0.05
"""Requests for harm and their twins by field. At 0.2, security questions of a source that was left out ring (7.6 %)."""
SET_WEIGHT = {
    "jailbreak_inthewild": 4.3,
    "injection_cse_en": 4.05,
    "injection_cse_multilingual": 2.1,
    "benign_wildguard": 5.4,
}
"""In head `injection`, of sets beside many more texts of ours and of other authors (0205). Many translated attacks are
attacks only to their own system prompt; at the weight of the originals they teach the language, and what those of ours
in `lines/abroad` find of them need not be learned there (0223); with texts of every day in their languages they may
count more again (0231, 0240). Beside twice as many texts of other authors all count more (0250), and so they do beside
English lines (0260)."""
FOREIGN_WEIGHT = 0.3
PROSE_WEIGHT = 0.3
READ_PROSE_WEIGHT = 0.9
"""Of the same prose in head `injection`, where it stands beside many more harmless texts."""
PER_LANGUAGE = 150
"""Messages of catalogues."""
