# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
"""Gives PyTorch memory from Tarn: import this, and call use_tarn () before anything else uses a GPU.
As a program, it trains a small network, with and without a CUDA graph."""

import ctypes

import torch

HOOKS = {
    "set_record_stream_fn": "tarn_cuda_torch_record_stream",
    "set_reset_fn": "tarn_cuda_torch_empty_cache",
    "set_memory_fraction_fn": "tarn_cuda_torch_set_memory_fraction",
    "set_begin_allocate_to_pool": "tarn_cuda_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "tarn_cuda_torch_end_allocate_to_pool",
    "set_release_pool": "tarn_cuda_torch_release_pool",
}


def use_tarn(library="libtarn-cuda.so.0"):
    functions = ctypes.CDLL(library)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        library, "tarn_cuda_torch_malloc", "tarn_cuda_torch_free")
    for hook, name in HOOKS.items():
        address = ctypes.cast(getattr(functions, name), ctypes.c_void_p).value
        getattr(allocator.allocator(), hook)(address)
    torch.cuda.memory.change_current_allocator(allocator)


def train(is_graph):
    """Returns the last loss of a hundred steps."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    inputs = torch.randn(256, 64, device="cuda")
    wanted = inputs.sum(dim=1, keepdim=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(network(inputs), wanted)
        loss.backward()
        optimizer.step()
        return loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # PyTorch requires this before a capture
        for _ in range(3):
            loss = step()
    torch.cuda.current_stream().wait_stream(stream)
    if is_graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
    for _ in range(97):
        if is_graph:
            graph.replay()
        else:
            loss = step()
        torch.full((1000, 1000), 7.0, device="cuda")  # other work does not disturb the graph
    return loss.item()


if __name__ == "__main__":
    use_tarn()
    print("loss", train(False))
    print("loss", train(True), "as a graph")
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        print(type(error).__name__ + ":", str(error)[:60])
