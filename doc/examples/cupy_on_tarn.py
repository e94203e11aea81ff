# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
"""Gives CuPy memory from Tarn: import this, and call use_tarn ().  As a program, it sorts numbers."""

import ctypes

import cupy


def use_tarn(library="libtarn-cuda.so.0"):
    functions = ctypes.CDLL(library)

    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value

    @ctypes.CFUNCTYPE(ctypes.c_void_p)
    def get_stream():
        return cupy.cuda.get_current_stream().ptr

    allocator = cupy.cuda.CFunctionAllocator(
        address(get_stream), address(functions.tarn_cuda_cupy_malloc),
        address(functions.tarn_cuda_cupy_free), (functions, get_stream))

    def allocate(size):
        memory = allocator.malloc(size)
        if size > 0 and memory.ptr == 0:
            raise cupy.cuda.memory.OutOfMemoryError(size, -1)
        return memory

    cupy.cuda.set_allocator(allocate)


if __name__ == "__main__":
    use_tarn()
    numbers = cupy.sort(cupy.arange(1 << 20) * 7919 % (1 << 20))
    print("sorted", bool((numbers == cupy.arange(1 << 20)).all()))
    with cupy.cuda.Stream(non_blocking=True):
        print("sum", int((cupy.arange(1000) * 2).sum()))
    try:
        cupy.empty(1 << 50, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError as error:
        print(type(error).__name__ + ":", error)
