"""Compile loops with numba, cache the machine code, and compile in a background process while this one serves."""
