"""Compiled kernels: numba for the CPU, Triton for CUDA. Each has a reference in plain torch where it is used."""
