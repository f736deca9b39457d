"""Name what no configuration or tokenizer of a checkpoint says, before or after a library fails at it."""
