"""What lies on disk: LoRA adapters, GPTQ and AWQ weights, draft heads, digests, progress of loading."""
