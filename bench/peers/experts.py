"""The decoder with experts of bench/moe_step.cc: parameters, and the model in PyTorch. Experts are in every second layer, and a token
has two; dispatch and combine are einsums. `o` has layers, hidden, heads, experts, width, vocabulary, sequence and group (tokens)."""


def parameters_of(o, normal, zeros, ones):
    layers = []
    for layer in range(o.layers):
        p = {name: ones(o.hidden) for name in ("norm1", "norm2")} | {f"{name}_bias": zeros(o.hidden) for name in ("norm1", "norm2")}
        for name in ("q", "k", "v", "o"):
            p |= {name: normal(o.hidden, o.hidden), f"{name}_bias": zeros(o.hidden)}
        if layer % 2:
            p |= {"gate": normal(o.hidden, o.experts), "up": normal(o.experts, o.hidden, o.width), "down": normal(o.experts, o.width, o.hidden)}
        else:
            p |= {"up": normal(o.hidden, o.width), "up_bias": zeros(o.width), "down": normal(o.width, o.hidden), "down_bias": zeros(o.hidden)}
        layers.append(p)
    return {"table": normal(o.vocabulary, o.hidden), "positions": normal(o.sequence, o.hidden), "norm": ones(o.hidden),
            "norm_bias": zeros(o.hidden), "head": zeros(o.vocabulary), "layers": layers}


def torch_moe(o):
    """A module whose result is the loss of tokens [B, T]."""
    import torch
    import torch.nn.functional as F
    capacity = 2 * o.group // o.experts

    def route(gates):
        first = F.one_hot(gates.argmax(-1), o.experts).float()
        second = F.one_hot((gates - 2 * first).argmax(-1), o.experts).float()
        place = first * (first.cumsum(1) - first) + second * (second.cumsum(1) - second + first.sum(1, keepdim=True))
        weight = gates * (first + second)
        weight = weight / weight.sum(-1, keepdim=True)
        here = place[..., None] == torch.arange(capacity, dtype=torch.float32, device=gates.device)
        zero = torch.zeros((), device=gates.device)
        balance = o.experts * (first.mean(1) * gates.mean(1)).sum(-1).mean()
        return torch.where(here, (first + second)[..., None], zero), torch.where(here, weight[..., None], zero), balance

    def block(p, x):
        h = F.layer_norm(x, (o.hidden,), p["norm1"], p["norm1_bias"])
        q, k, v = ((h @ p[n] + p[n + "_bias"]).reshape(*x.shape[:2], o.heads, -1).transpose(1, 2) for n in "qkv")
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + a @ p["o"] + p["o_bias"]
        h = F.layer_norm(x, (o.hidden,), p["norm2"], p["norm2_bias"])
        if "gate" not in p:
            return x + F.gelu(h @ p["up"] + p["up_bias"], approximate="tanh") @ p["down"] + p["down_bias"], 0.0
        t = h.reshape(-1, o.group, o.hidden)
        dispatch, combine, balance = route(torch.softmax((t @ p["gate"]).float(), -1))
        sent = torch.einsum("gsec,gsm->egcm", dispatch, t).reshape(o.experts, -1, o.hidden)
        result = (F.gelu(sent @ p["up"], approximate="tanh") @ p["down"]).reshape(o.experts, -1, capacity, o.hidden)
        return x + torch.einsum("gsec,egcm->gsm", combine, result).reshape(x.shape), balance

    class Moe(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.leaves = torch.nn.ParameterList()
            leaf = lambda x: self.leaves.append(x) and len(self.leaves) - 1
            self.places = parameters_of(o, lambda *s: leaf(torch.randn(*s) * 0.02), lambda *s: leaf(torch.zeros(*s)),
                                        lambda *s: leaf(torch.ones(*s)))

        def forward(self, tokens):
            named = lambda places: {name: self.leaves[i] for name, i in places.items() if name != "layers"}
            p, balance = named(self.places), 0.0
            x = F.embedding(tokens, p["table"]) + p["positions"]
            for places in self.places["layers"]:
                x, b = block(named(places), x)
                balance = balance + b
            logits = F.layer_norm(x, (o.hidden,), p["norm"], p["norm_bias"]) @ p["table"].T + p["head"]
            return F.cross_entropy(logits.reshape(-1, o.vocabulary), tokens.reshape(-1)) + 0.01 * balance / (o.layers // 2)

    return Moe()
