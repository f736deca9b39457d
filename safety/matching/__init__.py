"""Find matches in text and in streams: patterns, the automaton made of them, and the symbols it reads."""
