"""The model's output: its shape, regions and validation."""
