"""The regular pieces of a text: automata, word lists, counted strings."""
