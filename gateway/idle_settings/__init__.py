"""Find settings that have no effect, usually by a typing mistake."""
