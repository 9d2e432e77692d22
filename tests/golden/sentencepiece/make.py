#!/usr/bin/env python3
"""Writes pairs.model and unigram.model of SentencePiece with small vocabularies, encoded.json with texts and their tokens,
and tokenizer.json: the pairs as Hugging Face's `tokenizers` has them, by two ways to mark spaces.

    pip install sentencepiece tokenizers protobuf
    python tests/golden/sentencepiece/make.py
"""
import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

TEXTS = [
    "", " ", "   ", "a", " a", "a ", "  a  b  ", "Hello, world!", "tabs\tand\nlines\r\n\n x", "日本語 テキスト",
    "ünïcödé 😀 e\u0301", "x\u2581a\u2581 b\u2581", "<|user|>hi<|end|> there", "<|end|>", "x <|user|> y", "ﬁne ＡＢＣ １２３",
    "12345 007 3.14", "\u3000wide\u00a0nbsp", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\x00\x01\x7f", "<0x41> <pad>", "the the  the   the    the",
]
RULES = {"ﬁ": "fi", "Ａ": "A", "ＡＢ": "ab", "１": "1", "\t": " ", "\n": " ", "\u3000": " ", "\u00a0": "",
         "e\u0301": "é"}
COMMON = {"minloglevel": 2, "user_defined_symbols": ["<|user|>", "<|end|>"], "hard_vocab_limit": False}


def random_text(source, words):
    """Words of the source, characters of many scripts, and spaces."""
    points = [(32, 127), (160, 592), (768, 880), (913, 1154), (0x3040, 0x30A0), (0x4E00, 0x4E40),
              (0xFF10, 0xFF30), (0x1F600, 0x1F610)]
    parts = []
    for _ in range(source.randrange(1, 12)):
        if source.random() < 0.7:
            parts.append(source.choice(words))
        else:
            parts.append("".join(chr(source.randrange(*source.choice(points))) for _ in range(source.randrange(1, 5))))
        parts.append(source.choice([" ", " ", "", "  ", "\n", "\u2581"]))
    return "".join(parts)


def rows_of(processor, texts):
    rows = []
    for text in texts:
        tokens = processor.encode(text)
        rows.append({"text": text, "tokens": tokens, "back": processor.decode(tokens)})
    return rows


def as_tokenizer(path):
    """The pairs as `tokenizers` has them; merges as transformers' converter makes them."""
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    vocabulary = {piece.piece: i for i, piece in enumerate(model.pieces)}
    merges = [(piece.score, piece.piece[:i], piece.piece[i:]) for piece in model.pieces if piece.type == 1
              for i in range(1, len(piece.piece)) if piece.piece[:i] in vocabulary and piece.piece[i:] in vocabulary]
    merges.sort(key=lambda merge: -merge[0])
    tokenizer = Tokenizer(models.BPE(vocabulary, [merge[1:] for merge in merges], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])])
    return tokenizer


def main():
    folder = pathlib.Path(__file__).parent
    readme = folder.parents[2] / "README.md"
    source, words = random.Random(2), readme.read_text().split()
    texts = TEXTS + [random_text(source, words) for _ in range(110)]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for text, other in RULES.items():
            rules.write("\t".join(" ".join(f"{ord(c):X}" for c in part) for part in (text, other)) + "\n")
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(
            input=str(readme), model_prefix=str(folder / "pairs"), model_type="bpe", byte_fallback=True, vocab_size=480,
            normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
            split_digits=True, **COMMON)
        sentencepiece.SentencePieceTrainer.train(
            input=str(readme), model_prefix=str(folder / "unigram"), vocab_size=300,
            normalization_rule_tsv=rules.name, **COMMON)
    rows = {}
    for name in ("pairs", "unigram"):
        path = folder / f"{name}.model"
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(path.read_bytes())
        for field in ("input", "model_prefix"):  # where it was trained
            model.trainer_spec.ClearField(field)
        model.normalizer_spec.ClearField("normalization_rule_tsv")
        path.write_bytes(model.SerializeToString())
        (folder / f"{name}.vocab").unlink()
        rows[name] = rows_of(sentencepiece.SentencePieceProcessor(model_file=str(path)), texts)
    tokenizer = as_tokenizer(folder / "pairs.model")
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False))
    rows["tokenizers"] = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in texts if "\u2581" not in text]
    tokenizer.add_special_tokens([AddedToken("<|user|>", rstrip=True), AddedToken("<|end|>", lstrip=True, rstrip=True),
                                  AddedToken("  ")])
    marked = [f"{text}<|user|>{text}<|end|>{text}" for text in [*texts[:30], " \x1c ", "\x85\u2003 \u200b"]]
    rows["stripped"] = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in marked]
    tokenizer = as_tokenizer(folder / "pairs.model")
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    rows["first"] = [{"text": f"{text}</s>{text}", "tokens": tokenizer.encode(f"{text}</s>{text}").ids} for text in texts[:40]]
    lines = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row) for row in part) + "\n]" for name, part in rows.items()]
    (folder / "encoded.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
