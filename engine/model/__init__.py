"""Load models into memory, check them, serve LoRA adapters beside their layers, and embed texts."""
