"""What a model wrote: its shape, its regions and its validation."""
