"""Place memory of the process: stack space, huge pages, what was freed."""
