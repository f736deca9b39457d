"""Read checkpoint files: LoRA adapters, GPTQ and AWQ weights, draft heads, digests, load progress."""
