"""Results that are kept in files: what a function made of each case when somebody last looked and agreed.

`WRITE_GOLDEN=1 pytest tests/...` writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def assert_golden(file: Path, found: Mapping[str, Any]) -> None:
    """Assert that results are those that the file keeps. `found` holds results by case, as JSON values; the file has
    one line for each case."""
    if os.environ.get("WRITE_GOLDEN"):
        lines = [json.dumps([case, result], ensure_ascii=False) for case, result in found.items()]
        file.write_text("\n".join(lines) + "\n", "utf-8")
    kept = dict(json.loads(line) for line in file.read_text("utf-8").splitlines())
    plain = json.loads(json.dumps(found))
    changed = {case: (kept.get(case), plain.get(case)) for case in kept | plain if kept.get(case) != plain.get(case)}
    assert not changed, f"{file.name}: {len(changed)} results changed, (kept, found) of the first: {first(changed)}"


def first(changed: Mapping[str, Any]) -> list[Any]:
    return list(changed.items())[:5]
