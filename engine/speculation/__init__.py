"""Draft tokens from lookups, draft models and draft heads, confirmed by the model's next step."""
