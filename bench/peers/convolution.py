#!/usr/bin/env python3
"""The convolutions of bench/cuda_convolution.cc in PyTorch: bf16, channels last, cuDNN's fastest algorithm.

Prints one JSON object per layer and pass, named as ours: seconds of one call, the median over ROUNDS of RUNS calls in a row.
The gradient calls are aten::convolution_backward with one output. scripts/gpu_check sets them beside ours.
"""
import argparse
import json
import statistics
import sys
import time

LAYERS = ((56, 160, 160, 1), (56, 160, 320, 2), (28, 320, 320, 1), (14, 640, 640, 1), (7, 1280, 1280, 1))
TINY = ((6, 8, 8, 1),)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batch", 32), ("rounds", 11), ("runs", 10)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--tiny", action="store_true", help="one small layer")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    return parser.parse_args()


def passes_of(torch, options, side, channels, features, stride):
    """The calls of one layer by name, on random tensors."""
    def random(*shape):
        tensor = torch.randn(*shape, device=options.device, dtype=torch.bfloat16)
        return tensor.to(memory_format=torch.channels_last)

    x, kernel = random(options.batch, channels, side, side), random(features, channels, 3, 3)
    y = torch.nn.functional.conv2d(x, kernel, stride=stride, padding=1)
    dy = random(*y.shape)

    def gradient(which):
        return lambda: torch.ops.aten.convolution_backward(dy, x, kernel, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], 1, which)

    return {"forward": lambda: torch.nn.functional.conv2d(x, kernel, stride=stride, padding=1),
            "dx": gradient([True, False, False]), "dkernel": gradient([False, True, False])}


def main():
    options = arguments()
    import torch
    torch.backends.cudnn.benchmark = True
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    for side, channels, features, stride in TINY if options.tiny else LAYERS:
        layer = f"{side}x{side} {channels} to {features} stride {stride} batch {options.batch}"
        for name, call in passes_of(torch, options, side, channels, features, stride).items():
            for _ in range(3):  # finds the fastest algorithm
                call()
            wait()
            seconds = []
            for _ in range(options.rounds):
                start = time.perf_counter()
                for _ in range(options.runs):
                    call()
                wait()
                seconds.append((time.perf_counter() - start) / options.runs)
            print(json.dumps({"who": "peer", "peer": f"PyTorch {torch.__version__}", "name": f"{layer}, {name}", "precision": "bf16",
                              "median_seconds": statistics.median(seconds), "rounds": options.rounds, "runs": options.runs}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
