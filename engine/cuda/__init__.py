"""Run on CUDA devices: attention kernels, graphs, masks, draws, memory.

Modules of Triton kernels are imported only where a model lives on such a device, and by tests, which run the kernels
through Triton's interpreter.
"""
