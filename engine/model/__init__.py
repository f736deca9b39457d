"""A model in memory: loaded, checked, with LoRA adapters beside its layers, and as a text embedder."""
