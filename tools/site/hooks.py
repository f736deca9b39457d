"""What mkdocs calls: it adds the pages that are made, and mends links that leave `docs/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.site import commands_page, http_page, python_page, settings_page
from tools.site.links import moved

ROOT = Path(__file__).resolve().parents[2]
MADE: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands_page.page,
    "reference/http.md": http_page.page,
    "reference/python.md": python_page.page,
    "reference/settings.md": settings_page.page,
}
COPIED: Mapping[str, str] = {
    "CHANGELOG.md": "reference/changes.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "reference/figures.md",
    "examples/README.md": "reference/examples.md",
}
"""Documents elsewhere in the repository, and the pages they are in the site. `docs/index.md` stands for README.md."""
MARK = "gateway/console/static/mark.svg"


def on_files(files: Files, config: Any) -> Files:
    """Add what is not in `docs/`."""
    for page, make in MADE.items():
        files.append(File.generated(config, page, content=make()))
    for source, page in COPIED.items():
        if files.get_file_from_path(page) is None:
            files.append(
                File.generated(config, page, content=moved((ROOT / source).read_text("utf-8"), source, page, COPIED))
            )
    files.append(File.generated(config, "images/mark.svg", abs_src_path=str(ROOT / MARK)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mend the links of a page of `docs/`."""
    place = page.file.src_uri
    if place in MADE or (place in COPIED.values() and page.file.generated_by):
        return markdown
    return moved(markdown, f"docs/{place}", place, COPIED)
