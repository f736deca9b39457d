"""The engine thread: admits requests, computes steps, appends drawn tokens, delivers pieces."""
