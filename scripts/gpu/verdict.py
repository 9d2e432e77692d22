"""What the rows of a call say together."""

from gpu.check import card

PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # data sheets, dense bf16
# Of a step's share of the peak, and of the seconds of PyTorch's compiled step over ours.
OF_PEAK = {"gpt 350M": 0.50, "gpt 1.3B": 0.55}
OVER_COMPILED = {"gpt 350M": 1.0, "gpt 1.3B": 1.0, "moe 380M": 1.0, "wide-resnet 250M": 0.95}


def timed(row):
    """What a row has the seconds of, and in which precision, or None. Of the rows about a model, that of the whole step counts."""
    whole = "model" not in row or row["who"] == "peer" or row["name"] == "step"
    if "who" not in row or not row.get("median_seconds") or row.get("batch", "resident") != "resident" or not whole:
        return None
    return row.get("model", row["name"]), row.get("precision")


def aimed(row, figure, value, least):
    """The row with a figure, and with what it should be at least, if anything."""
    return {**row, figure: round(value, 4), **({} if least is None else {"aim": f"{figure} >= {least}", "met": value >= least})}


def verdict(check):
    """Peers beside our step of the same model and precision, variants beside the first, shares of the peak, and aims that were missed."""
    rows = [row for row in check.rows.rows if "name" in row]
    ours = {timed(row): row for row in rows if row.get("who") == "alpa" and timed(row)}
    peak = next((peak for name, peak in PEAKS.items() if name in (card("name") or "")), None)
    said = []
    for (model, precision), row in ours.items():
        if peak and row.get("teraflops") and precision == "bf16":
            said.append(aimed({"name": model, "precision": precision}, "of_peak", row["teraflops"] * 1e12 / peak, OF_PEAK.get(model)))
    for row in rows:
        if row.get("who") == "peer" and timed(row) in ours:
            model, precision = timed(row)
            compiled = "torch.compile" in row["name"]
            said.append(aimed({"name": model, "precision": precision, "peer": row.get("peer", row["name"])}, "peer_seconds_over_ours",
                              row["median_seconds"] / ours[timed(row)]["median_seconds"], OVER_COMPILED.get(model) if compiled else None))
    variants = [row for row in rows if row["job"].startswith("variants/") and timed(row)]
    said += [{"name": row["job"], "over_first": round(row["median_seconds"] / variants[0]["median_seconds"], 4)} for row in variants[1:]]
    for row in said:
        check.rows.add("verdict", row)
    for row in rows + [{"job": "verdict", **row} for row in said]:
        if row.get("met") is False:
            check.rows.add("verdict", {"name": row["name"], "of": row["job"], "misses": row["aim"], "value": row.get(row["aim"].split()[0])})
