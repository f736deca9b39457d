"""The state of one sequence: its tokens, its ends, and where its pieces go."""
