#!/usr/bin/env python3
"""Writes vocab.json, merges.txt and encoded.json: a small byte-level BPE in GPT-2's format.

    pip install tokenizers
    python tests/golden/bpe/make.py

Hugging Face's `tokenizers` trains it on this repository's README.md and encodes the examples below;
tests/train/tokenizer_test.cc compares alpa with that.
"""
import json
import pathlib

from tokenizers import ByteLevelBPETokenizer

EXAMPLES = [
    "",
    "Hello world",
    "The framework's devices, it'll say, we've  planned;\n\n  I'm done.",
    "   leading and trailing   ",
    "tabs\tand\r\nlines \n \n x",
    "it's IT'S 'tis 'll'd'x'",
    "x = 3.14159e-10; y+=0xFF || !z",
    "Grüße, naïve café — Ελληνικά русский 日本語 한국어 العربية हिन्दी",
    "½ ² Ⅷ ٣ 一二 e\u0301 \u00a0nbsp\u2003em\u3000wide\u200bzero",
    "😀👩‍👩‍👧 emoji, \U00020000 rare",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa parallelize parallelparallel",
    "\x00\x01\x1c\x1f control \x7f\u0085 next",
]


def main():
    folder = pathlib.Path(__file__).parent
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([str(folder.parents[2] / "README.md")], vocab_size=420, min_frequency=2,
                    special_tokens=[], show_progress=False)
    tokenizer.add_special_tokens([])
    tokenizer.save_model(str(folder))
    encoded = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in EXAMPLES]
    lines = ",\n".join(json.dumps(entry) for entry in encoded)
    (folder / "encoded.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
