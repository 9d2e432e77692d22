#!/usr/bin/env python3
"""Writes small images of many kinds, and pixels.safetensors: what Pillow reads of each.

    pip install pillow numpy safetensors
    python tests/golden/images/make.py

"<file>" is u8 [height, width, 3], "<file>.grey" u8 [height, width].
tests/data/images_test.cc compares alpa with that.
"""
import pathlib

import numpy as np
from PIL import Image
from safetensors.numpy import save_file


def main():
    folder = pathlib.Path(__file__).parent
    y, x = np.mgrid[0:9, 0:13]
    smooth = np.stack([20 * x, 25 * y, 255 - 10 * (x + y)], -1).astype(np.uint8)
    colour = Image.fromarray(smooth)
    alpha = Image.fromarray(np.dstack([smooth, (17 * x).astype(np.uint8)]))
    images = {
        "colour.png": (colour, {}),
        "grey.png": (colour.convert("L"), {}),
        "palette.png": (colour.quantize(8), {}),
        "transparent.png": (alpha, {}),
        "bilevel.png": (colour.convert("1"), {}),
        "colour.jpg": (colour, {"quality": 90}),
        "grey.jpeg": (colour.convert("L"), {"quality": 90}),
        "progressive.jpg": (colour, {"quality": 90, "progressive": True}),
    }
    pixels = {}
    for name, (image, options) in images.items():
        image.save(folder / name, **options)
        read = Image.open(folder / name).convert("RGB")
        pixels[name] = np.asarray(read)
        pixels[name + ".grey"] = np.asarray(read.convert("L"))
    save_file(pixels, folder / "pixels.safetensors")


if __name__ == "__main__":
    main()
