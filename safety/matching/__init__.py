"""Match patterns in texts and streams: patterns, their automaton, and the symbols it reads."""
