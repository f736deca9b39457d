"""The journal of usage that the store does not have yet."""
