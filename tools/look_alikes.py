"""Write the table of look-alike letters from Unicode's UTS #39, as ICU ships it.

    python -m tools.look_alikes > safety/matching/uts39.py

ICU's `uspoof_getSkeleton` says what a character looks like; two characters with one skeleton are confusable. Needs
libicui18n (Debian: `libicu72`, of Unicode 15.0). Nothing runs this but a developer after a new version of Unicode.
"""

from __future__ import annotations

import ctypes
import glob
import sys
import unicodedata
from collections.abc import Callable

HEAD = '''"""Characters that look like ASCII ones. Written by `python -m tools.look_alikes`; do not edit.

Of the confusables of Unicode's UTS #39 (ICU %(icu)s, Unicode %(unicode)s), modified: one character each, by the ASCII
character that it looks like, without what a normalisation form or a decimal digit's value says already.
Copyright (c) 1991-2023 Unicode, Inc. All rights reserved. Distributed under the Terms of Use in
https://www.unicode.org/copyright.html; the permission notice stands in `uts39.LICENSE` beside this file.
"""

from __future__ import annotations

'''

SIGNS = ".:/'"
"""Signs inside of addresses and numbers."""
_LIVING = (
    *((0x0370, 0x10FF), (0x1780, 0x18AF), (0x1C80, 0x1CBF), (0x1F00, 0x1FFF), (0x2D00, 0x2D2F), (0x2DE0, 0x2DFF)),
    *((0x2E80, 0x9FFF), (0xA640, 0xA69F), (0xAC00, 0xD7FF)),
)
"""Blocks of scripts that are written every day. Whichever of their letters are Latin to a reader in both cases stand in
the table that is written by hand; a word of the language must not change because one of its letters looks Latin."""


class Skeletons:
    """What ICU says a text looks like."""

    def __init__(self, path: str) -> None:
        library, suffix = ctypes.CDLL(path), "_" + path.rpartition(".so.")[2].partition(".")[0]
        self.icu = suffix[1:]
        error = ctypes.c_int(0)
        begin = library[f"uspoof_open{suffix}"]
        begin.restype = ctypes.c_void_p
        self._checker = ctypes.c_void_p(begin(ctypes.byref(error)))
        self._call = library[f"uspoof_getSkeletonUTF8{suffix}"]
        if error.value > 0:
            raise SystemExit(f"{path}: uspoof_open failed with ICU error {error.value}")
        version = (ctypes.c_uint8 * 4)()
        library[f"u_getUnicodeVersion{suffix}"](version)
        self.unicode = f"{version[0]}.{version[1]}"

    def of(self, text: str) -> str:
        data, out, error = text.encode(), ctypes.create_string_buffer(256), ctypes.c_int(0)
        size = self._call(self._checker, 0, data, len(data), out, len(out), ctypes.byref(error))
        return out.raw[:size].decode() if error.value <= 0 else text


def table(skeleton: Callable[[str], str]) -> dict[str, dict[str, list[str]]]:
    """Return the characters by ASCII character, in four parts: see `NOTES`."""
    ascii_of = {skeleton(char): char for char in map(chr, range(0x7E, 0x20, -1)) if char not in "0|"}
    ascii_of[skeleton("l")] = "l"
    found: dict[str, dict[str, list[str]]] = {"LETTERS": {}, "ALSO": {}, "MARKS": {}, "LIGATURES": {}}
    for char in map(chr, range(0x80, 0x110000)):
        if unicodedata.category(char) in ("Cn", "Cs", "Co", "Mn", "Me", "Nd"):
            continue
        if unicodedata.normalize("NFKD", char) == char != (looks := skeleton(char)):
            part, target = _part(char, looks, ascii_of)
            if part:
                found[part].setdefault(target, []).append(char)
    return found


def _part(char: str, looks: str, ascii_of: dict[str, str]) -> tuple[str, str]:
    target = ascii_of.get(looks, "")
    category = unicodedata.category(char)
    if target in SIGNS and target and category[0] in "PSL":
        return ("MARKS", target) if category[0] != "L" or category == "Lm" else ("", "")
    if target.isalpha():
        living = any(low <= ord(char) <= high for low, high in _LIVING)
        one_to_one = (target.isalpha() and not living and category[0] in "LN") or category == "So"
        return ("LETTERS" if one_to_one and target.isalpha() else "ALSO"), target
    latin = unicodedata.name(char, "").startswith("LATIN")
    return ("LIGATURES", looks) if latin and looks.isascii() and looks.isalpha() else ("", "")


NOTES = {
    "LETTERS": "Letters and numerals that stand for a letter wherever they are.",
    "ALSO": "What may be written for a letter of a phrase, and is a sign or a letter of its own elsewhere.",
    "MARKS": "Signs inside of addresses and numbers.",
    "LIGATURES": "Latin letters that look like two or three.",
}


def written(skeletons: Skeletons) -> str:
    lines = [HEAD % {"icu": skeletons.icu, "unicode": skeletons.unicode}]
    for part, chars_by_target in table(skeletons.of).items():
        lines.append(f"{part} = {{\n")
        for target, chars in sorted(chars_by_target.items()):
            escaped = "".join(char.encode("unicode_escape").decode() for char in chars)
            rows = _wrapped(escaped)
            lines.append(f'    "{target}": ' + "\n    ".join(f'"{row}"' for row in rows) + ",\n")
        lines.append(f'}}  # fmt: skip\n"""{NOTES[part]}"""\n\n')
    return "".join(lines).rstrip("\n") + "\n"


def _wrapped(escaped: str, width: int = 100) -> list[str]:
    rows = [""]
    for escape in escaped.replace("\\", "\n\\").split("\n")[1:]:
        if len(rows[-1]) + len(escape) > width:
            rows.append("")
        rows[-1] += escape
    return rows


def main() -> None:
    libraries = sorted(glob.glob("/usr/lib/*/libicui18n.so.*"), key=len)
    if not libraries:
        raise SystemExit("there is no libicui18n here; install it (Debian: apt-get install libicu72)")
    sys.stdout.write(written(Skeletons(libraries[0])))


if __name__ == "__main__":
    main()
