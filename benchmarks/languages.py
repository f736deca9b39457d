"""Measure a head for requests on texts written for it: ordinary requests, harmless ones near attacks, and attacks.

    python -m benchmarks.languages [--data FILE.txt]
    python -m benchmarks.languages --head harm --data benchmarks/harmful.txt

`FILE` has sections `[language kind]` and a text a line; `\\n` is a line break. The default's, in 24 languages of kinds
`ordinary`, `near` and `attack`, were written for this measurement by four hands that had seen no other text of ours,
and are not trained on. Three other hands wrote `languages.txt` in 18 languages before. `english_second.txt` holds
English texts by two hands: attacks of kinds `hijack` and `extract`, what players of a game for a secret type, and
`general`; the other kinds are harmless. `english_third.txt` to `english_eighth.txt` hold plainer ones, each by one to
three other hands. `languages_third.txt` holds 17 languages by another hand, `harmful.txt` requests for something
harmful in 13, and harmless ones, for head `harm`. Shares were chosen with the counts of these files, but for
`english_fourth.txt`, `english_sixth.txt` to `english_eighth.txt` and `languages_third.txt`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks import common
from sluicegate.gateway.commands.statistics import share
from sluicegate.safety.detection import Detector, load

TEXTS = Path(__file__).parent / "languages_second.txt"
RINGS = 0.5
GROUPS = {
    "en": "English",
    **dict.fromkeys(("es", "fr", "pt", "it", "de", "tr", "id", "fil", "vi"), "Latin letters"),
    **dict.fromkeys(("pl", "nl", "sv", "uk", "fa", "el"), "six more languages"),
}
"""The last: those in which training has fewer lines than in the others, written after these texts were read once."""
OTHERS = "other letters"
_SECTION = re.compile(r"\[(\w+) (\w+)\]")


def texts(file: Path) -> dict[tuple[str, str], list[str]]:
    """Return (language, kind) -> texts. Raises `SystemExit` for a file of another form."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in filter(None, map(str.strip, file.read_text("utf-8").splitlines())):
        if section := _SECTION.fullmatch(line):
            current = found.setdefault((section[1], section[2]), [])
        elif found:
            current.append(line.replace("\\n", "\n"))
        else:
            raise SystemExit(f"{file} begins with no section such as [es ordinary]")
    if not found:
        raise SystemExit(f"{file} holds no texts")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = common.parser(__doc__, TEXTS, 0, "texts of each language and kind")
    parser.add_argument("--head", choices=("injection", "harm"), default="injection")
    asked = parser.parse_args(argv)
    detector = Detector(load())
    judge = detector.injection if asked.head == "injection" else detector.harm
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (language, kind), found in texts(asked.data).items():
        read = found[: asked.limit or None]
        rings = sum(judge(text).score > RINGS for text in read)
        for name in (f"{GROUPS.get(language, OTHERS)}, {kind}", f"{language}, {kind}"):
            counts[name][0] += rings
            counts[name][1] += len(read)
    for name, (rings, n) in counts.items():
        of_all = share(rings, n)
        told = f"{of_all.value:7.1%} ({of_all.low:.1%} - {of_all.high:.1%})" if of_all else ""
        print(f"{name:<28}{rings:>4} of {n:<4}{told}")
    common.report(asked, {name: {"flagged": rings, "texts": n} for name, (rings, n) in counts.items()})


if __name__ == "__main__":
    main()
