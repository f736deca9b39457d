"""A tokenizer's vocabulary as tries, and its tokens classified by lexeme state."""
