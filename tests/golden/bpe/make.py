#!/usr/bin/env python3
"""Writes vocab.json, merges.txt, encoded.json and words.json: a small byte-level BPE in GPT-2's format, and words.

    pip install tokenizers
    python tests/golden/bpe/make.py

Hugging Face's `tokenizers` trains it on this repository's README.md and encodes the examples below;
tests/data/tokenizer_test.cc compares alpa with that. The words of the examples are those of patterns in use.
"""
import json
import pathlib

from tokenizers import ByteLevelBPETokenizer, Regex
from tokenizers.pre_tokenizers import Sequence, Split

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

LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "GPT-2": [r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    "Llama 3": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + ENDS],
    "Qwen2": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + ENDS],
    "GPT-4": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|"
              r"\s+(?!\S)|\s+"],
    "GPT-4o": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
               rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
               r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + ENDS],
    "DeepSeek-V3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                    r" ?[\p{P}\p{S}]+[\r\n]*|" + ENDS],
    "words, lines and empty matches": [r"\w+|^\W", r"(?=[a-f])|\d$"],
}


def words_of(patterns, text):
    splits = [Split(Regex(pattern), "isolated") for pattern in patterns]
    return [word for word, _ in Sequence(splits).pre_tokenize_str(text)]


def write_words(folder):
    rows = [{"name": name, "patterns": patterns, "words": [words_of(patterns, text) for text in EXAMPLES]}
            for name, patterns in PATTERNS.items()]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "words.json").write_text(f"[\n{lines}\n]\n")


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
    write_words(folder)


if __name__ == "__main__":
    main()
