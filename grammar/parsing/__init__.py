"""Parse text by a context-free grammar over lexemes, and find the tokens that go on with it."""
