"""The page of a report in a real browser: nothing is said on the console, marks show what they are, a part of the timeline can
be looked at closely, and a narrow window needs no scrolling to the side. Without Chromium it is skipped.

report_browser_test.py ALPA [FOLDER]: writes pictures of the page to FOLDER, too."""
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
outcome.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.getElementById('outcome').textContent = JSON.stringify(outcome);
</script>"""


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
        subprocess.run([alpa, "report", folder / "plan.json", "--cluster", "dgx-a100", "--output", folder / "plan.html"],
                       check=True, capture_output=True)
        page = (folder / "plan.html").read_text()
        for width in (1100, 390):
            check(program, width, page, folder)
        if len(sys.argv) > 2:
            target = pathlib.Path(sys.argv[2]).resolve()
            for picture, width, height in (("report", 1000, 3000), ("report-narrow", 390, 1400)):
                run(program, folder, f"--window-size={width},{height}", f"--screenshot={target / picture}.png",
                    f"file://{folder / 'plan.html'}")
    print("OK")
    return 0


if __name__ == "__main__":
    sys.exit(main())
