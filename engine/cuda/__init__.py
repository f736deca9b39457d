"""What runs differently on a CUDA device: attention kernels, graphs, masks, draws, memory.

Nothing here is imported where a model lives on a CPU, but by tests, which run the kernels through Triton's interpreter.
"""
