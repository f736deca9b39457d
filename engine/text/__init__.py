"""Prompts to token ids and token ids to text: chat templates, detokenizer, stop strings."""
