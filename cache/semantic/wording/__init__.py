"""The last and the first step to the canonical wording of a question: what stands around it, frames, a lexicon."""
