#pragma once
/// Style and script of the page of a report.

namespace alpa::page {

inline constexpr const char* kStyle = R"(
:root{--ink:#1c2430;--soft:#5b6675;--line:#d5dbe3;--page:#fff;--panel:#f6f8fa;--a:#3b76c4;--b:#e08a1e;
--c:#3a9a5b;--d:#9a5bb5;--none:#c3cad3;--warn:#c24a3a}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa5b4;--line:#3a4452;--page:#161b22;
--panel:#1f2630;--none:#55606e}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);
margin:0 auto;max-width:1080px;padding:16px}
h1{font-size:22px;margin:8px 0}h2{font-size:17px;margin:28px 0 6px}p{margin:4px 0;color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;background:var(--panel);padding:12px 16px;
border-radius:8px;margin:8px 0}dt{color:var(--soft)}dd{margin:0}
nav a{margin-right:12px;color:var(--a)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;min-width:100%}
th,td{text-align:left;padding:3px 10px 3px 0;border-bottom:1px solid var(--line);vertical-align:top}
td.r,th.r{text-align:right;white-space:nowrap}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
svg .axis{stroke:var(--line)}svg .roof{stroke:var(--soft);fill:none;stroke-dasharray:4 3}
.k0{fill:var(--a);background:var(--a)}.k1{fill:var(--b);background:var(--b)}.k2{fill:var(--c);background:var(--c)}
.k3{fill:var(--d);background:var(--d)}.k4{fill:var(--none);background:var(--none)}
.k5{fill:var(--warn);background:var(--warn)}
.limit{stroke:var(--warn);stroke-width:1.5;stroke-dasharray:5 3}
.key i,.cell i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:4px}
.key span{margin-right:14px;white-space:nowrap}.key{font-size:13px;color:var(--soft)}
.layer{display:grid;grid-template-columns:190px 1fr;gap:8px;border-bottom:1px solid var(--line);padding:5px 0}
.layer>b{font-weight:500;font-size:13px;overflow-wrap:anywhere}
.cells{display:flex;flex-wrap:wrap;gap:4px}
.cell{font-size:12px;border:1px solid var(--line);border-radius:5px;padding:1px 6px 1px 4px;white-space:nowrap}
.cell i{width:7px;margin-right:1px}.cell.partial{border-style:dashed;border-color:var(--warn)}
.cell.result{background:var(--panel)}
[data-tip]{cursor:help}.cell:focus,rect:focus,circle:focus{outline:2px solid var(--b)}
#tip{position:fixed;display:none;max-width:min(420px,90vw);background:var(--ink);color:var(--page);padding:6px 10px;
border-radius:6px;font-size:13px;white-space:pre-line;pointer-events:none;z-index:9}
.zoom{display:flex;gap:6px;margin:4px 0}.zoom button{font:13px system-ui;padding:1px 10px;border:1px solid
var(--line);border-radius:5px;background:var(--panel);color:var(--ink)}
@media (max-width:600px){body{padding:10px}svg{min-width:640px}.layer{grid-template-columns:1fr;gap:2px}dl{grid-template-columns:1fr}}
@media print{.zoom,nav,#tip{display:none!important}body{max-width:none}h2{break-after:avoid}
section{break-inside:avoid-page}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
)";

inline constexpr const char* kScript = R"(
const tip = document.getElementById('tip');
function show(mark, x, y) {
  tip.textContent = mark.dataset.tip;
  tip.style.display = 'block';
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + 'px';
  tip.style.top = (y + 16 + box.height > innerHeight ? y - box.height - 8 : y + 16) + 'px';
}
function hide() { tip.style.display = 'none'; }
document.addEventListener('pointermove', event => {
  const mark = event.target.closest && event.target.closest('[data-tip]');
  mark ? show(mark, event.clientX, event.clientY) : hide();
});
document.addEventListener('pointerdown', event => {
  const mark = event.target.closest && event.target.closest('[data-tip]');
  if (mark) show(mark, event.clientX, event.clientY);
});
document.addEventListener('focusin', event => {
  const mark = event.target.closest('[data-tip]');
  if (!mark) return;
  const box = mark.getBoundingClientRect();
  show(mark, box.left, box.bottom);
});
document.addEventListener('focusout', hide);
document.addEventListener('keydown', event => { if (event.key === 'Escape') hide(); });
for (const bar of document.querySelectorAll('.zoom')) {
  const svg = document.getElementById(bar.dataset.of);
  const [left, top, width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  let from = left, wide = width;
  svg.setAttribute('preserveAspectRatio', 'none');
  const set = (begin, size) => {
    wide = Math.min(width, Math.max(width / 200, size));
    from = Math.min(left + width - wide, Math.max(left, begin));
    svg.setAttribute('viewBox', [from, top, wide, height].join(' '));
    for (const text of svg.querySelectorAll('text')) {
      const x = Number(text.getAttribute('x'));
      text.setAttribute('transform', `translate(${x} 0) scale(${wide / width} 1) translate(${-x} 0)`);
    }
  };
  const zoom = (factor, at) => set(from + (at - from) * (1 - factor), wide * factor);
  bar.addEventListener('click', event => {
    const what = event.target.dataset.zoom;
    if (what === 'in') zoom(0.5, from + wide / 2);
    if (what === 'out') zoom(2, from + wide / 2);
    if (what === 'all') set(left, width);
  });
  svg.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, from + wide * (event.clientX - box.left) / box.width);
  }, {passive: false});
  let last = null;
  svg.addEventListener('pointerdown', event => { last = event.clientX; });
  addEventListener('pointerup', () => { last = null; });
  svg.addEventListener('pointermove', event => {
    if (last === null || wide === width) return;
    set(from - (event.clientX - last) * wide / svg.getBoundingClientRect().width, wide);
    last = event.clientX;
  });
}
)";

}  // namespace alpa::page
