"""Compiled kernels: numba for the CPU, Triton for CUDA. Each has a reference in plain torch where it is used.

A numba kernel that another one calls is inlined: ``inline="always"``, or ``forceinline=True`` where it is called from
Python too or rounds by other rules than its caller. A call would find the kernel's own code in the process that
compiles it and the caller's copy in one that loads both from the cache, and the two may round differently.
"""
