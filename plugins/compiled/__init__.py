"""Compile loops by numba, keep what was compiled, and have it compiled beside a process that serves already."""
