#!/usr/bin/env python3
# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
"""Trains a network with PyTorch, and prints the most memory that the process took from the device
beyond its context, in MiB, and the median time of a step, in ms.  No other process may use the
device.  Needs PyTorch with torchvision and transformers."""

import argparse
import os
import statistics
import sys
import threading
import time

SETTINGS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
    "tarn": "",
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=["resnet50", "gpt2"])
    parser.add_argument("allocator", choices=list(SETTINGS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--library", default="libtarn-cuda.so.0", help="Tarn's library for CUDA")
    return parser.parse_args()


ARGUMENTS = parse()
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[ARGUMENTS.allocator]  # before PyTorch reads it

try:
    import torch  # noqa: E402
except ImportError as error:
    sys.exit(f"torch-training.py: {error}")


class Watch(threading.Thread):
    """Keeps the most memory of the device that was not free."""

    def __init__(self):
        super().__init__(daemon=True)
        self.free_at_first = self.least_free = torch.cuda.mem_get_info()[0]
        self.goes_on = True

    def look(self):
        self.least_free = min(self.least_free, torch.cuda.mem_get_info()[0])

    def run(self):
        while self.goes_on:
            self.look()
            time.sleep(0.005)

    def end(self):
        self.goes_on = False
        self.join()
        self.look()
        return (self.free_at_first - self.least_free) / 2**20


def resnet50():
    """Returns a function that computes the loss of step i: batches of 64 and 48 images by turns."""
    import torchvision

    network = torchvision.models.resnet50().cuda()
    batches = [(torch.randn(n, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (n,), device="cuda"))
               for n in (64, 48)]

    def loss(i):
        images, classes = batches[i % 2]
        return torch.nn.functional.cross_entropy(network(images), classes)

    return network, loss


def gpt2():
    """Returns a function that computes the loss of step i: batches of 8 texts of 64 to 1,024 tokens."""
    import random
    import transformers

    network = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda()
    random.seed(1)
    lengths = [random.randint(64, 1024) for _ in range(ARGUMENTS.steps)]

    def loss(i):
        tokens = torch.randint(0, 50257, (8, lengths[i]), device="cuda")
        return network(tokens, labels=tokens).loss

    return network, loss


def train(watch):
    torch.manual_seed(1)
    network, loss = {"resnet50": resnet50, "gpt2": gpt2}[ARGUMENTS.network]()
    optimizer = torch.optim.AdamW(network.parameters())
    times = []
    for i in range(ARGUMENTS.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss(i).backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        watch.look()
    return 1000 * statistics.median(times[len(times) // 4:])


def main():
    if not torch.cuda.is_available():
        sys.exit("torch-training.py: PyTorch finds no CUDA device")
    if ARGUMENTS.allocator == "tarn":
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../doc/examples"))
        from torch_on_tarn import use_tarn

        use_tarn(ARGUMENTS.library)
    torch.cuda.synchronize()  # makes the context
    watch = Watch()
    watch.start()
    step = train(watch)
    print(f"{ARGUMENTS.network} {ARGUMENTS.allocator}: {watch.end():.0f} MiB, {step:.1f} ms a step")


main()
