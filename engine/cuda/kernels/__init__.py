"""The Triton kernels; what launches them lies beside this folder."""
