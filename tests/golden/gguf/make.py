#!/usr/bin/env python3
"""Writes the golden files of tests/models/gguf_test.cc, with ggml's own package and llama.cpp's converter.

    pip install gguf torch transformers safetensors sentencepiece
    python tests/golden/gguf/make.py LLAMA_CPP      a checkout of github.com/ggml-org/llama.cpp

types.gguf has a matrix of random blocks per element type, types.safetensors what `gguf.quants` reads in them.
llama.gguf is the model of tests/golden/pretrained/llama. gemma2.gguf is that of gemma2 in f16, with the scale of scores
that GGUF's readers assume; gemma2.safetensors has its logits by transformers.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "pretrained"
CHECKOUT = sys.argv.pop(1)
sys.path[:0] = [CHECKOUT, CHECKOUT + "/gguf-py"]

import convert_hf_to_gguf
import gguf
import torch
import transformers
from conversion import base, gemma, llama
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
SCALES = {"Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "Q4_1": [0, 2], "Q5_1": [0, 2]}  # halves in a block


def blocks_of(name, random):
    """Two rows of 256 elements, as bytes."""
    elements, size = gguf.GGML_QUANT_SIZES[Type[name]]
    if elements == 1:
        return gguf.quants.quantize(random.standard_normal((2, 256)).astype(np.float32), Type[name])
    blocks = random.integers(0, 256, (2 * 256 // elements, size), dtype=np.uint8)
    for at in SCALES.get(name, [0]):
        halves = random.uniform(-1, 1, len(blocks)).astype(np.float16)
        blocks[:, at:at + 2] = halves[:, None].view(np.uint8)
    return blocks.reshape(2, -1)


def write_types():
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(HERE / "types.gguf", "none")
    expected = {}
    for name in TYPES:
        stored = blocks_of(name, random)
        expected[name] = gguf.quants.dequantize(stored, Type[name])
        writer.add_tensor(name, stored, raw_dtype=Type[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, HERE / "types.safetensors")


def convert(model, out, dtype, **changes):
    """The converted model of a folder, whose config.json is changed; returns that folder."""
    folder = pathlib.Path(tempfile.mkdtemp()) / model
    shutil.copytree(MODELS / model, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    transformers.AutoTokenizer.from_pretrained = lambda *_, **__: tokenizer
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "llama-bpe"
    gemma.Gemma2Model.set_vocab = llama.LlamaModel.set_vocab = lambda self: self._set_vocab_gpt2()
    sys.argv[1:] = [str(folder), "--outtype", dtype, "--outfile", str(HERE / out)]
    convert_hf_to_gguf.main()
    return folder


def write_gemma2():
    folder = convert("gemma2", "gemma2.gguf", "f16", query_pre_attn_scalar=12, bos_token_id=301)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.data = parameter.data.half().float()
    tokens = torch.tensor([transformers.AutoTokenizer.from_pretrained()("A plan of all")["input_ids"]])
    with torch.no_grad():
        logits = model(tokens).logits
    save_file({"tokens": tokens.numpy().astype(np.int32), "logits": logits.numpy()}, HERE / "gemma2.safetensors")


write_types()
convert("llama", "llama.gguf", "f32", bos_token_id=301)
write_gemma2()
