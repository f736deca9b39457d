"""Requests that are kept, where the operator asks for it, to be asked again."""
