"""Read GGUF files, and check what they say of themselves."""
