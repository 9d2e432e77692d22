#!/usr/bin/env python3
"""Tokens of a GPT, one after the other: alpa's, llama.cpp's and those of transformers with PyTorch, on the CPU, in turn.

The model is GPT-2's (tied head, learnt positions) with random weights, or for alpa and llama.cpp a file's, in its blocks. A request is a prompt of --prompt tokens, a first token,
and as many likeliest tokens behind it as a second takes, whose time counts. Prints one JSON object per line: seconds of a token,
their ratio to alpa's (median of the rounds), tokens a second, and peak memory of each process. llama.cpp's and transformers'
figures need the packages llama-cpp-python and gguf, and transformers and torch.

    bench/peers/generation.py build/bin/bench_generation [--layers 12 --hidden 768 --heads 12 --vocabulary 50257 --prompt 16
        --rounds 7 --peers llama.cpp,transformers --threads 2 --devices 1 --dtype f32 --load MODEL.gguf]
"""
import os
import statistics
import tempfile
import time

from turns import Apart, OnRequest, arguments, take_turns

SIZES = (("layers", 12), ("hidden", 768), ("heads", 12), ("vocabulary", 50257), ("prompt", 16), ("devices", 1))
O = arguments(__doc__, "bench", **dict(SIZES), rounds=7, threads=2, peers="llama.cpp,transformers", dtype=["f32", "bf16"], load="")
POSITIONS = 1024
PROMPT = [i * 7919 % O.vocabulary for i in range(O.prompt)]


def torch_gpt2():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.set_num_threads(O.threads)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=O.vocabulary, n_positions=POSITIONS, n_embd=O.hidden, n_layer=O.layers, n_head=O.heads,
                        bos_token_id=0, eos_token_id=None)
    return torch, GPT2LMHeadModel(config).eval().to(torch.bfloat16 if O.dtype == "bf16" else torch.float32)


def write_gguf(path):
    """GPT-2's weights as llama.cpp reads them, with a vocabulary of made words."""
    import gguf
    _, model = torch_gpt2()
    writer = gguf.GGUFWriter(path, "gpt2")
    for add, value in ((writer.add_context_length, POSITIONS), (writer.add_embedding_length, O.hidden), (writer.add_block_count, O.layers),
                       (writer.add_feed_forward_length, 4 * O.hidden), (writer.add_head_count, O.heads), (writer.add_layer_norm_eps, 1e-5),
                       (writer.add_file_type, gguf.LlamaFileType.MOSTLY_BF16 if O.dtype == "bf16" else gguf.LlamaFileType.ALL_F32), (writer.add_tokenizer_model, "gpt2"), (writer.add_tokenizer_pre, "gpt-2"),
                       (writer.add_token_list, [f"t{i}" for i in range(O.vocabulary)]), (writer.add_token_types, [1] * O.vocabulary),
                       (writer.add_token_merges, ["t 0"]), (writer.add_bos_token_id, 0), (writer.add_eos_token_id, 0)):
        add(value)
    names = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    parts = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    for name, tensor in model.transformer.state_dict().items():
        layer, kind = name.rsplit(".", 1)
        if layer in names:
            target = names[layer]
        else:
            _, number, part = layer.split(".", 2)
            target = f"blk.{number}.{parts[part]}"
        data = tensor.detach().float().numpy()
        if "c_" in layer and kind == "weight":
            data = data.T.copy()  # GPT-2's are [in, out]
        if O.dtype == "bf16" and data.ndim == 2:
            stored = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(f"{target}.{kind}", gguf.quants.quantize(data, stored), raw_dtype=stored)
        else:
            writer.add_tensor(f"{target}.{kind}", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Transformers:
    name = "transformers"

    def __init__(self):
        self.torch, self.model = torch_gpt2()
        self.prompt = self.torch.tensor([PROMPT])

    def seconds_of(self, count):
        times = Times()
        with self.torch.inference_mode():
            self.model.generate(self.prompt, attention_mask=self.torch.ones_like(self.prompt), max_new_tokens=count + 1,
                                min_new_tokens=count + 1, do_sample=False, pad_token_id=0, streamer=times)
        assert len(times.all) == count + 2  # the prompt comes first
        return times.all[-1] - times.all[1]


class Times:
    """When tokens came, as a streamer of transformers."""

    def __init__(self):
        self.all = []

    def put(self, _):
        self.all.append(time.perf_counter())

    def end(self):
        pass


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self):
        import llama_cpp
        with tempfile.TemporaryDirectory() as folder:
            path = O.load or os.path.join(folder, "gpt2.gguf")
            if not O.load:
                write_gguf(path)
            self.model = llama_cpp.Llama(path, n_ctx=POSITIONS, n_threads=O.threads, n_threads_batch=O.threads, use_mmap=False, verbose=False)

    def token_behind(self, tokens):
        self.model.eval(tokens)
        return self.model.sample(temp=0)

    def seconds_of(self, count):
        self.model.reset()
        token = self.token_behind(PROMPT)
        start = time.perf_counter()
        for _ in range(count):
            token = self.token_behind([token])
        return time.perf_counter() - start


class WithRate:
    """A program whose facts hold its tokens a second, too."""

    def __init__(self, program):
        self.program, self.name, self.all = program, program.name, []

    def seconds_of(self, count):
        seconds = self.program.seconds_of(count)
        self.all.append(count / seconds)
        return seconds

    def facts(self):
        return {"tokens_per_second": round(statistics.median(self.all), 2)} | self.program.facts()


MAKERS = {"llama.cpp": LlamaCpp, "transformers": Transformers}

if __name__ == "__main__":
    sizes = [word for name, _ in SIZES for word in (f"--{name}", str(getattr(O, name)))]
    sizes += ["--load", O.load] if O.load else []
    programs = [OnRequest("alpa", [O.bench, *sizes, "--dtype", O.dtype, "--on-request"])] + [Apart(MAKERS[name]) for name in O.peers.split(",")]
    take_turns([WithRate(program) for program in programs], O.rounds, threads=O.threads,
               **({"model": os.path.basename(O.load)} if O.load else {"dtype": O.dtype} | {name: getattr(O, name) for name, _ in SIZES}))
