"""The page of a report in a real browser: nothing is said on the console, every panel is there, every number is one of the
page's JSON, marks show what they are, a part of the timeline can be looked at closely, and a narrow window needs no scrolling
to the side. Without Chromium it is skipped.

report_browser_test.py ALPA [FOLDER]: writes pictures of the page to FOLDER, too."""
import decimal
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CHECKS = """
<pre id="outcome"></pre><script>
const outcome = {};
const tipOf = mark => {
  const box = mark.getBoundingClientRect();
  mark.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: box.left + 1, clientY: box.top + 1}));
  return getComputedStyle(tip).display === 'block' ? tip.textContent : '';
};
outcome.cell = tipOf(document.querySelector('.cell'));
outcome.run = tipOf(document.querySelector('#runs rect'));
outcome.marks = document.querySelectorAll('[data-tip]').length;
document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));
outcome.hidden = getComputedStyle(tip).display;
const box = () => document.getElementById('runs').getAttribute('viewBox').split(' ').map(Number);
outcome.whole = box()[2];
document.querySelector('[data-zoom=in]').click();
outcome.closer = box()[2];
document.querySelector('[data-zoom=all]').click();
outcome.again = box()[2];
outcome.title = document.title;
outcome.sections = [...document.querySelectorAll('section')].map(section => section.id);
outcome.links = [...document.querySelectorAll('nav a')].map(link => link.getAttribute('href'));
outcome.summary = document.querySelector('dl').innerText;
outcome.numbers = [...document.querySelectorAll('[data-n]')].map(of => [of.dataset.n, of.dataset.u, of.textContent]);
outcome.lanes = [...document.querySelectorAll('#runs text')].map(text => text.textContent);
outcome.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.getElementById('outcome').textContent = JSON.stringify(outcome);
</script>"""


# A measured run, as programs write it with --trace.
TRACE = {"traceEvents": [
    {"name": "thread_name", "ph": "M", "pid": 0, "tid": 1, "args": {"name": "measured"}},
    {"name": "forward 0", "ph": "X", "pid": 0, "tid": 1, "ts": 1000, "dur": 20000, "args": {"stage": 0, "micro_batch": 0}}]}
SECTIONS = ["time", "sharding", "memory", "timeline", "communication", "alternatives", "assumptions"]


def two_digits(value):
    value = decimal.Decimal(value)
    if value == 0:
        return "0"
    rounded = decimal.Context(prec=2, rounding=decimal.ROUND_HALF_UP).plus(value)
    digits = max(0, 1 - rounded.adjusted())
    return f"{rounded:.{digits}f}"


def shown(value, unit):
    """A number as the page has it, in a unit of report_page.js."""
    if unit == "s":
        if value == 0:
            return "0"
        size = abs(value)
        factor, name = (1, "s") if size >= 0.9949 else (1e3, "ms") if size >= 0.9949e-3 else (1e6, "us")
        return f"{two_digits(value * factor)} {name}"
    if unit == "B":
        return "under 0.001 MiB" if 0 < value < 2**20 / 1000 else f"{two_digits(value / 2**20)} MiB"
    if unit == "%":
        return f"{100 * value:.0f} %"
    if unit:
        prefixes = iter(["", "k", "M", "G", "T", "P", "E"])
        prefix = next(prefixes)
        while abs(value) >= 999.5:
            value, prefix = value / 1000, next(prefixes)
        return f"{two_digits(value)} {prefix}{unit.replace('F', 'FLOP')}"
    return str(int(value)) if value == int(value) else two_digits(value)


def check_numbers(page, numbers):
    """Every number is that of its place in the JSON."""
    report = json.loads(re.search('id="numbers">(.*?)</script>', page, re.DOTALL).group(1))
    assert len(numbers) > 150, len(numbers)
    for place, unit, text in numbers:
        value = report
        for key in place.split("/")[1:]:
            value = value[int(key) if isinstance(value, list) else key]
        assert text == shown(value, unit), (place, unit, text, value)


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    return None


def run(name, folder, *arguments):
    return subprocess.run(
        [name, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
         f"--user-data-dir={folder}/profile", *arguments], capture_output=True, text=True, timeout=120)


def check(program, width, page, folder):
    tried = folder / "tried.html"
    tried.write_text(page.replace("</body>", CHECKS + "</body>"))
    result = run(program, folder, f"--window-size={width},900", "--dump-dom", f"file://{tried}")
    said = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    assert not said, said
    text = re.search('<pre id="outcome">(.*?)</pre>', result.stdout, re.DOTALL).group(1)
    assert text, result.stderr
    outcome = json.loads(html.unescape(text))
    assert "split over" in outcome["cell"] or "copy on every device" in outcome["cell"], outcome
    assert outcome["run"].startswith("stage 0, forward of micro-batch 0"), outcome
    assert outcome["marks"] > 30 and outcome["hidden"] == "none", outcome
    assert outcome["closer"] == outcome["whole"] / 2 and outcome["again"] == outcome["whole"], outcome
    assert outcome["overflow"] <= 0, (width, outcome)
    assert outcome["sections"] == SECTIONS and outcome["links"] == ["#" + section for section in SECTIONS], outcome
    assert outcome["title"].startswith("Plan: pipeline on 8 devices, meshes "), outcome["title"]
    for word in ("Plan", "Step", "Proof", "Memory", "Communication", "not compared with other stages"):
        assert word in outcome["summary"], outcome["summary"]
    assert outcome["lanes"] == ["predicted 0", "predicted 1", "measured 0"], outcome["lanes"]
    check_numbers(page, outcome["numbers"])


def main():
    program = browser()
    if not program:
        print("skipped: there is no chromium; apt-get install chromium")
        return 77
    alpa = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([alpa, "plan", "gpt", "125M", "--cluster", "dgx-a100", "--batch", "16", "--stages", "2",
                        "--micro-batches", "8", "--save", folder / "plan.json"], check=True, capture_output=True)
        (folder / "trace.json").write_text(json.dumps(TRACE))
        report = [alpa, "report", folder / "plan.json", "--cluster", "dgx-a100", "--output", folder / "plan.html"]
        subprocess.run([*report, "--trace", folder / "trace.json"], check=True, capture_output=True)
        page = (folder / "plan.html").read_text()
        for width in (1100, 390):
            check(program, width, page, folder)
        if len(sys.argv) > 2:
            target = pathlib.Path(sys.argv[2]).resolve()
            subprocess.run(report, check=True, capture_output=True)
            for picture, width, height in (("report", 1000, 3000), ("report-narrow", 390, 1400)):
                run(program, folder, f"--window-size={width},{height}", f"--screenshot={target / picture}.png",
                    f"file://{folder / 'plan.html'}")
    print("OK")
    return 0


if __name__ == "__main__":
    sys.exit(main())
