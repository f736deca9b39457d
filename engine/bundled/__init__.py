"""The bundled model: weights, tokenizer and chat template as a transformers folder (see docs/bundled-model.md)."""
