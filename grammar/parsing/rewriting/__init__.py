"""Write rules in another way for the same texts: without needless ambiguity, and as small automata."""
