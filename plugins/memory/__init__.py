"""Place memory of the process: stack space, huge pages."""
