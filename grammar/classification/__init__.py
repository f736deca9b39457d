"""What a vocabulary's tokens do from a state of a lexeme."""
