"""Gather the fragments of `changelog.d/` into the section of a version in `CHANGELOG.md`, and delete them.

    python -m tools.changelog 0.3.0

The section is made where there is none. Read what it wrote before you commit it: merge what is of one subject.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}


def main() -> int:
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit(f"usage: python -m tools.changelog MAJOR.MINOR.PATCH\n{(__doc__ or '').splitlines()[0]}")
    changelog = ROOT / "CHANGELOG.md"
    fragments = [path for path in sorted((ROOT / "changelog.d").iterdir()) if path.name != "README.md"]
    changelog.write_text(gathered(changelog.read_text("utf-8"), sys.argv[1], fragments), "utf-8")
    for path in fragments:
        path.unlink()
    print(f"{len(fragments)} fragments gathered into {changelog.name} under {sys.argv[1]}")
    return 0


def gathered(changelog: str, version: str, fragments: list[Path]) -> str:
    """Return `changelog` with the fragments at the end of the section of `version`, one list for each kind."""
    head, heading, rest = changelog.partition(f"## {version}\n")
    if not heading:
        head, _, rest = changelog.partition("\n## ")
        head, heading, rest = head.rstrip("\n") + "\n\n", f"## {version}\n", f"\n## {rest}" if rest else ""
    section, following, later = rest.partition("\n## ")
    for kind, title in KINDS.items():
        entries = [listed(path.read_text("utf-8")) for path in fragments if path.name.endswith(f".{kind}.md")]
        if entries:
            section = section.rstrip("\n") + f"\n\n### {title}\n\n" + "".join(entries)
    body = f"\n{section.strip()}\n" if section.strip() else ""
    return head + heading + body + following + later


def listed(fragment: str) -> str:
    """Return a fragment as an entry of a list. Its lines may stay as long as they are."""
    return "- " + fragment.strip().replace("\n", "\n  ") + "\n"


if __name__ == "__main__":
    sys.exit(main())
