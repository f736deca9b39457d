"""Build the site into `build/site`, or a folder that is named: `python -m tools.site.build [FOLDER]`.

Pages of reference are made from the code; a link that leads nowhere, and a page that nothing leads to, are errors.
"""

from __future__ import annotations

import logging
import sys

from mkdocs.commands.build import build
from mkdocs.config import load_config

from tools.site.hooks import ROOT


def main(arguments: list[str]) -> int:
    folder = arguments[0] if arguments else str(ROOT / "build" / "site")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=folder)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    print(f"the site is in {folder}; open {folder}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
