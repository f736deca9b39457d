"""The file that says which definitions were agreed to."""

from __future__ import annotations

from pathlib import Path

from sluicegate.gateway.mcp.pins import SqlitePinStore


def test_pins_are_for_the_gateways_user_alone(tmp_path: Path) -> None:
    """Who could write them could agree to a definition in an operator's place."""
    store = SqlitePinStore(tmp_path / "folder" / "pins.sqlite3")
    store.open()
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "folder").iterdir()} == {0}
    store.close()
