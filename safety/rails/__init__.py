"""Match rails for streams and messages, and pseudonyms for personal data."""
