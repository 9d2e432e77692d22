#!/usr/bin/env python3
"""Writes tokenizer.json, BERT's with a small vocabulary, and encoded.json: texts and their tokens.

    pip install tokenizers
    python tests/golden/wordpiece/make.py

Hugging Face's `tokenizers` trains it on README.md and this file, and encodes texts, most of them made at random.
"""
import json
import pathlib
import random

from tokenizers import BertWordPieceTokenizer, Tokenizer, decoders, processors

TEXTS = [
    "", " ", "Hello, world!", "[CLS] a [MASK] b[SEP]", "don't U.S. $5.00 <x> a_b ^~`",
    "ünïcödé ÅNGSTRÖM İstanbul ΣΑΣ ﬁ",
    "日本語 テキスト 漢字kanji", "\ttabs\nand\x00 nul \ufffd \u200b \u00ad \x85 \x0b\x0c x", "x" * 99,
    "x" * 100, "x" * 101,
    "a\u0301e\u0308 q\u0323\u0307", "한국어 텍스트", "русский Ёлка",
    "हिन्दी العربية", "\u3000wide\u00a0nbsp\u2028line",
    "ǅ ß ẞ Ⅷ ½ ²", "a\u0300\u0316 \U0001d15e", "—“quotes”… ¿que?", "\ue000private \u0378unassigned",
]


def random_text(source, words):
    """Words of the source, characters of many scripts, and white space."""
    points = [(32, 127), (160, 592), (768, 880), (913, 1154), (1488, 1515), (0x900, 0x970), (0x1E00, 0x1F00),
              (0x2000, 0x2070), (0x3040, 0x30A0), (0x4E00, 0x4E40), (0xAC00, 0xAC20), (0x1F600, 0x1F610)]
    parts = []
    for _ in range(source.randrange(1, 12)):
        if source.random() < 0.6:
            word = source.choice(words)
            parts.append(word.upper() if source.random() < 0.2 else word)
        else:
            parts.append("".join(chr(source.randrange(*source.choice(points))) for _ in range(source.randrange(1, 5))))
        parts.append(source.choice([" ", " ", "", "  ", "\n", "-"]))
    return "".join(parts)


def main():
    folder = pathlib.Path(__file__).parent
    readme = folder.parents[2] / "README.md"
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train([str(readme), __file__], vocab_size=600, min_frequency=2, show_progress=False)
    marks = [(token, tokenizer.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False))
    source, words = random.Random(1), readme.read_text().split()
    texts = TEXTS + [random_text(source, words) for _ in range(280)]
    forms = [{}, {"lowercase": False}, {"strip_accents": False}, {"handle_chinese_chars": False}, {"clean_text": False}]
    rows = []
    for i, text in enumerate(texts):
        form = forms[i % len(forms) if i >= len(TEXTS) else 0]
        changed = json.loads(tokenizer.to_str())
        changed["normalizer"] |= form
        changed = Tokenizer.from_str(json.dumps(changed))
        tokens = changed.encode(text).ids
        rows.append({"form": form, "text": text, "tokens": tokens,
                     "back": decoders.WordPiece(cleanup=False).decode(
                         [changed.id_to_token(token) for token in tokens])})
    (folder / "encoded.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
