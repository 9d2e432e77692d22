// src/report/report_page.js — draws the page of a report from the JSON in it (report_json.h)
'use strict';
const report = JSON.parse(document.getElementById('numbers').textContent);

// --- Texts and numbers

const escaped = text => String(text).replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);

/** Two significant digits, never with an exponent, as two_digits() of src/base/text.cc. */
function twoDigits(value) {
  if (value === 0) return '0';
  const exponent = Number(value.toExponential(1).split('e')[1]);
  return Number(value.toPrecision(2)).toFixed(Math.max(0, 1 - exponent));
}

function secondsText(seconds) {
  const size = Math.abs(seconds);
  if (size === 0) return '0';
  if (size >= 0.9949) return twoDigits(seconds) + ' s';
  return size >= 0.9949e-3 ? twoDigits(seconds * 1e3) + ' ms' : twoDigits(seconds * 1e6) + ' us';
}

function bytesText(bytes) {
  const mebibytes = bytes / 2 ** 20;
  return bytes > 0 && mebibytes < 0.001 ? 'under 0.001 MiB' : twoDigits(mebibytes) + ' MiB';
}

/** "1.2 TFLOP/s". */
function withPrefix(value, unit) {
  let prefix = 0;
  for (; Math.abs(value) >= 999.5 && prefix < 6; ++prefix) value /= 1000;
  return `${twoDigits(value)} ${['', 'k', 'M', 'G', 'T', 'P', 'E'][prefix]}${unit}`;
}

/** A number in its unit: "s" seconds, "B" bytes, "B/s", "F" FLOPs, "F/s", "%" of a share. */
function text(value, unit = '') {
  if (value === null) return 'not finite';
  switch (unit) {
    case 's': return secondsText(value);
    case 'B': return bytesText(value);
    case '%': return `${(100 * value).toFixed(0)} %`;
    case 'F': return withPrefix(value, 'FLOP');
    case 'F/s': return withPrefix(value, 'FLOP/s');
    case 'B/s': return withPrefix(value, 'B/s');
    default: return Number.isInteger(value) ? value.toFixed(0) : twoDigits(value);
  }
}

/** The number at `place` of the JSON, in an element that names it: `tspan` in charts. */
function number(place, unit = '', element = 'span') {
  const value = place.split('/').reduce((json, key) => json[key], report);
  return `<${element} data-n="/${place}" data-u="${unit}">${text(value, unit)}</${element}>`;
}

/** Attributes of a mark that says what it stands for. */
const says = words => ` tabindex="0" data-tip="${escaped(words)}"`;

/** Legend: pairs of a colour and its meaning. */
function key(colours) {
  const marks = colours.map(([colour, what]) => `<span><i class="k${colour}"></i>${what}</span>`);
  return `<p class="key">${marks.join('')}</p>`;
}

/** Rows are lists of cells in HTML; columns whose head begins with ">" are aligned to the right. */
function table(heads, rows) {
  const cell = (tag, html, column) =>
    `<${tag}${heads[column].startsWith('>') ? ' class="r"' : ''}>${html}</${tag}>`;
  const row = (tag, cells) => `<tr>${cells.map((html, i) => cell(tag, html, i)).join('')}</tr>`;
  return '<div class="wide"><table>' + row('th', heads.map(head => head.replace('>', ''))) +
    rows.map(cells => row('td', cells)).join('') + '</table></div>';
}

// --- Charts

const width = 1000;

const rect = (x, y, wide, high, colour, words) =>
  `<rect x="${x.toFixed(2)}" y="${y}" width="${wide.toFixed(2)}" height="${high}" ` +
  `class="k${colour}"${says(words)}/>`;

const label = (x, y, html) => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}">${html}</text>`;

const svg = (id, height, content, words) =>
  `<div class="wide"><svg id="${id}" viewBox="0 0 ${width} ${height}" role="img" ` +
  `aria-label="${words}">${content}</svg></div>`;

/** A bar per stage: products, memory, communication, waiting. */
function timeBars() {
  const parts = [
    ['compute', 'operators bound by FLOPs', 0], ['memory', 'operators bound by memory', 2],
    ['communication', 'communication', 1], ['waiting', 'waiting', 4]];
  const scale = (width - 80) / Math.max(1e-30, report.seconds);
  const bars = report.time.map((time, stage) => {
    let x = 70;
    const y = 4 + 26 * stage;
    return label(0, y + 14, `stage ${stage}`) + parts.map(([part, words, colour]) => {
      const wide = time[part] * scale;
      x += wide;
      return rect(x - wide, y, wide, 20, colour,
                  `stage ${stage}: ${words} ${text(time[part], 's')}`);
    }).join('');
  });
  return svg('time-bars', 8 + 26 * bars.length, bars.join(''),
             'Seconds of each stage by what bounds them');
}

/** FLOPs per byte against FLOP/s, both logarithmic, with the roofs of the cluster's rates. */
function roofline() {
  const height = 260, left = 60, bottom = 30, lowest = 0.05, highest = 2e4;
  const bandwidth = report.assumptions.memory_bytes_per_second;
  const rates = report.assumptions.rates.map(rate => rate.flops_per_second);
  const peak = Math.max(0, ...rates);
  if (bandwidth <= 0 || peak <= 0) return '';
  const share = (value, from, to) =>
    Math.min(1, Math.max(0, Math.log(Math.max(value, 1e-30) / from) / Math.log(to / from)));
  const xOf = perByte => left + share(perByte, lowest, highest) * (width - left - 10);
  const yOf = rate => (height - bottom) * (1 - share(rate, bandwidth * lowest, peak * 1.5)) + 4;
  const point = (perByte, rate) => `${xOf(perByte).toFixed(1)} ${yOf(rate).toFixed(1)}`;
  let marks = '';
  for (const rate of new Set(rates)) {
    const names = report.assumptions.rates.filter(of => of.flops_per_second === rate)
      .map(of => escaped(of.dtype));
    marks += `<path class="roof" d="M${point(lowest, lowest * bandwidth)}` +
      `L${point(rate / bandwidth, rate)}L${point(highest, rate)}"/>` +
      label(width - 170, yOf(rate) - 4, `${names.join(', ')} ` +
        number(`assumptions/rates/${rates.indexOf(rate)}/flops_per_second`, 'F/s', 'tspan'));
  }
  const axis = height - bottom + 4;
  marks += `<line class="axis" x1="${left}" y1="${axis}" x2="${width - 10}" y2="${axis}"/>` +
    [0.1, 1, 10, 100, 1000, 10000].map(n => label(xOf(n) - 8, height - 10, text(n))).join('') +
    label(width - 130, height + 6, 'FLOPs per byte');
  for (const op of report.operators) {
    if (op.flops_per_byte <= 0 || op.flops_per_second <= 0) continue;
    const radius = 4 + 26 * Math.sqrt(op.seconds / Math.max(report.seconds, 1e-30));
    const words = `${op.count} x ${op.name}\n${text(op.seconds, 's')} a step, ` +
      `${text(op.flops_per_second, 'F/s')}, ${text(op.flops_per_byte)} FLOPs per byte\n` +
      op.strategy;
    marks += `<circle cx="${xOf(op.flops_per_byte).toFixed(1)}" ` +
      `cy="${yOf(op.flops_per_second).toFixed(1)}" r="${radius.toFixed(1)}" ` +
      `class="k${op.bound_by === 'compute' ? 0 : 2}" fill-opacity="0.55"${says(words)}/>`;
  }
  return svg('roofline', height + 12, marks, 'Roofline of the costliest operators') +
    '<p>Circles are classes of operators, their area the seconds; lines are the rates and the ' +
    'bandwidth that the planner assumed.</p>';
}

/** What lives on a device of a stage: an area per kind, one above the other. */
function memoryChart({kinds, points}, stage) {
  const height = 150, farLimit = 4;  // a limit above that would flatten the chart
  const colours = [0, 3, 1, 2, 4], limit = report.stages[stage].memory.limit;
  const sum = bytes => bytes.reduce((a, b) => a + b, 0);
  let most = Math.max(1, ...points.map(sum));
  const showsLimit = limit > 0 && limit < farLimit * most;
  if (showsLimit) most = Math.max(most, limit);
  const step = (width - 80) / points.length;
  const yOf = bytes => (4 + height * (1 - bytes / most)).toFixed(1);
  let marks = kinds.map((kind, k) => {
    const edge = (p, last) => {  // over the first `last` kinds, from left to right
      const y = yOf(sum(points[p].slice(0, last)));
      return [`${(70 + step * p).toFixed(1)} ${y}`, `${(70 + step * (p + 1)).toFixed(1)} ${y}`];
    };
    const upper = points.flatMap((_, p) => edge(p, k + 1));
    const lower = points.flatMap((_, p) => edge(p, k)).reverse();
    const largest = Math.max(...points.map(bytes => bytes[k]));
    return `<path d="M${upper.concat(lower).join('L')}Z" class="k${colours[k]}"` +
      says(`stage ${stage}: ${kind}, at most ${text(largest, 'B')}`) + '/>';
  }).join('');
  if (showsLimit) {
    const y = yOf(limit);
    marks += `<line class="limit" x1="70" y1="${y}" x2="${width - 10}" y2="${y}"/>` +
      label(width - 150, Number(y) + 13,
            'limit ' + number(`stages/${stage}/memory/limit`, 'B', 'tspan'));
  }
  return svg(`memory-${stage}`, height + 10, marks + label(0, 20, `stage ${stage}`),
             'Bytes of a device');
}

/** A lane of runs, predicted or measured, for each part of the devices; `seconds` are its width. */
function lane(runs, seconds, y, name) {
  const colours = {forward: 0, backward: 2, weights: 3, apply: 1, accumulate: 0};
  const scale = (width - 100) / seconds;
  return label(0, y + 14, name) + runs.map(({run, stage, micro_batch, begin, end}) =>
    rect(90 + begin * scale, y, Math.max(0.3, (end - begin) * scale - 0.4), 19, colours[run] ?? 4,
         `stage ${stage}, ${run} of micro-batch ${micro_batch}\n` +
         `${text(begin, 's')} to ${text(end, 's')}`)).join('');
}

// --- Panels

function summary() {
  const sum = parts => report.time.reduce(
    (all, time) => all + parts.reduce((seconds, part) => seconds + time[part], 0), 0);
  const all = sum(['compute', 'memory', 'communication', 'waiting']);
  const limit = Math.max(0, ...report.stages.map(stage => stage.memory.limit));
  const lines = [
    ['Plan', `${escaped(report.method)} on ${number('devices')} devices, meshes ${report.meshes}`],
    ['Step', `${number('seconds', 's')} predicted`],
    ['Proof', escaped(report.proof)],
    ['Memory', `${number('memory_bytes', 'B')} of a device` +
      (limit > 0 ? ` of ${text(limit, 'B')}` : '')],
    ['Communication', `${text(all > 0 ? sum(['communication']) / all : 0, '%')} of the devices' ` +
      `time, waiting ${number('bubble', '%')}`]];
  return lines.map(([name, words]) => `<dt>${name}</dt><dd>${words}</dd>`).join('');
}

function timePanel() {
  const rows = report.operators.map((op, i) => [
    number(`operators/${i}/seconds`, 's'),
    `${number(`operators/${i}/count`)} x <b>${escaped(op.name)}</b><br>${escaped(op.strategy)}`,
    op.region,
    number(`operators/${i}/flops`, 'F'),
    number(`operators/${i}/bytes`, 'B'),
    number(`operators/${i}/flops_per_second`, 'F/s'),
    op.bound_by]);
  return `<p>Predicted seconds of a step: ${number('seconds', 's')}</p>` +
    key([[0, 'operators bound by FLOPs'], [2, 'operators bound by memory'], [1, 'communication'],
         [4, 'waiting for other stages']]) + timeBars() + roofline() +
    table(['>seconds', 'operators', 'region', '>FLOPs', '>bytes', '>rate', 'bound by'], rows);
}

function shardingPanel() {
  const colour = axis => axis === undefined ? 4 : {x: 0, y: 1}[axis[0]] ?? (axis[0] < 'x' ? 3 : 2);
  const cell = tensor => {
    const stripes = tensor.split.map(axes => `<i class="k${colour(axes[0])}"></i>`).join('');
    const words = `${tensor.kind} ${tensor.name} ${tensor.type}\n${tensor.layout}\n` +
      `${text(tensor.bytes, 'B')} a device`;
    return `<span class="cell ${tensor.kind}${tensor.partial.length > 0 ? ' partial' : ''}"` +
      `${says(words)}>${stripes} ${escaped(tensor.name)}</span>`;
  };
  const layers = report.sharding.map(({stage, first, last, count, tensors}) => {
    const name = (report.stages.length > 1 ? `stage ${stage}: ` : '') + escaped(first) +
      (first === last ? '' : ` to ${escaped(last)} (${count} alike)`);
    const cells = tensors.map(cell).join('');
    return `<div class="layer"><b>${name}</b><div class="cells">${cells}</div></div>`;
  });
  return '<p>A cell is a tensor, a stripe one of its dimensions. Results are those of ' +
    'products.</p>' +
    key([[0, 'split over x'], [1, 'split over y'], [2, 'split over z'], [4, 'whole']]) +
    layers.join('');
}

function memoryPanel() {
  const kinds = ['state', 'accumulators', 'activations', 'temporaries', 'total', 'limit'];
  const rows = report.stages.map((_, stage) =>
    [stage, ...kinds.map(kind => number(`stages/${stage}/memory/${kind}`, 'B')),
     number(`stages/${stage}/memory/in_flight`)]);
  return '<p>Values of a device from the begin of the step to its end, before they are packed; ' +
    `the exact peak is ${number('memory_bytes', 'B')}.</p>` +
    key([[0, 'parameters'], [3, 'optimizer state'], [1, 'accumulators'],
         [2, 'activations in flight'], [4, 'temporaries']]) +
    report.memory.map(memoryChart).join('') +
    table(['stage', ...kinds.map(kind => '>' + kind), '>in flight'], rows);
}

function timelinePanel() {
  const {timeline, measured} = report;
  const shown = [[timeline, 'predicted'], [measured, 'measured']].filter(([lanes]) => lanes);
  if (shown.length === 0) return '';
  const seconds = Math.max(1e-30, ...shown.map(([lanes]) => lanes.seconds));
  let y = 4, marks = '';
  for (const [lanes, name] of shown) {
    lanes.meshes.forEach((runs, mesh) => {
      marks += lane(runs, seconds, y, `${name} ${mesh}`);
      y += 24;
    });
    y += 8;
  }
  return (timeline ? `<p>Predicted ${number('timeline/seconds', 's')}; devices wait ` +
      `${number('bubble', '%')} of it. ${number('timeline/shown_micro_batches')} of ` +
      `${number('timeline/micro_batches')} micro-batches are shown.</p>` : '') +
    (measured ? `<p>Measured ${number('measured/seconds', 's')}.</p>` : '') +
    key([[0, 'forward'], [2, 'backward'], [3, 'gradients of weights'], [1, 'apply']]) +
    '<div class="zoom" data-of="runs"><button data-zoom="in">closer</button>' +
    '<button data-zoom="out">wider</button><button data-zoom="all">all</button></div>' +
    svg('runs', y, marks, 'Runs of the stages');
}

function communicationPanel() {
  const kinds = report.communication.kinds.map(({stage, axis, kind}, i) => [
    stage, escaped(axis), kind,
    number(`communication/kinds/${i}/count`),
    number(`communication/kinds/${i}/bytes`, 'B'),
    number(`communication/kinds/${i}/seconds`, 's')]);
  const largest = report.communication.largest.map((one, i) => [
    number(`communication/largest/${i}/seconds`, 's'),
    number(`communication/largest/${i}/bytes`, 'B'),
    number(`communication/largest/${i}/count`) + escaped(` x ${one.what} of ${one.type} from ` +
      `${one.from} for ${one.for}`) + `<br>${escaped(`left with ${one.left}, wanted with ` +
      one.wanted)}`]);
  const transfers = report.transfers.map(({per}, i) => [
    `stage ${number(`transfers/${i}/from`)} to ${number(`transfers/${i}/to`)}`,
    number(`transfers/${i}/tensors`),
    number(`transfers/${i}/bytes`, 'B'),
    number(`transfers/${i}/seconds`, 's'),
    `per ${per}`]);
  return (kinds.length > 0 ?
      table(['stage', 'axis', 'kind', '>calls', '>bytes sent', '>seconds'], kinds) +
      '<p>The largest, with what they are for:</p>' +
      table(['>seconds', '>bytes sent', 'what'], largest) : '') +
    (transfers.length > 0 ? '<p>Between stages:</p>' +
      table(['stages', '>tensors', '>bytes', '>seconds', ''], transfers) : '') || '<p>None.</p>';
}

function alternativesPanel() {
  const layouts = report.hand_made.map(({mesh, uses, fits}, i) => [
    number(`hand_made/${i}/stage`), mesh, escaped(uses),
    number(`hand_made/${i}/seconds`, 's'),
    number(`hand_made/${i}/more`, '%'),
    number(`hand_made/${i}/memory_bytes`, 'B'),
    fits ? '' : 'more than a device has']);
  const operators = report.operators.flatMap((op, i) => op.next_best ? [[
    `<b>${escaped(op.name)}</b>`, escaped(op.strategy), escaped(op.next_best.strategy),
    number(`operators/${i}/next_best/extra_seconds`, 's')]] : []);
  return (layouts.length > 0 ?
      '<p>Layouts that people choose by hand, each at its best: seconds of a step of the stage, ' +
      'and how much more that is than the plan takes. <q>batch</q> splits the batch and state ' +
      'where that is cheaper, <q>data</q> the batch alone; an axis of <q>any</q> has one ' +
      'device.</p>' +
      table(['>stage', 'mesh', 'uses of its axes', '>seconds', '>more', '>bytes', ''],
            layouts) : '') +
    (operators.length > 0 ?
      '<p>One operator of each class in the next best way, all else equal: the seconds that it ' +
      'adds to a step.</p>' + table(['operator', 'chosen', 'next best', '>adds'], operators) : '');
}

function assumptionsPanel() {
  const {rates, links, measured} = report.assumptions;
  const rows = [
    ['hosts', number('assumptions/hosts')],
    ['devices of a host', number('assumptions/devices_per_host')],
    ['memory of a device', number('assumptions/memory_bytes', 'B')],
    ['its bandwidth', number('assumptions/memory_bytes_per_second', 'B/s')],
    ['launch of an operator', number('assumptions/launch_seconds', 's')],
    ...rates.map(({dtype}, i) =>
      [`products of ${dtype}`, number(`assumptions/rates/${i}/flops_per_second`, 'F/s')]),
    ...links.map(({what}, i) =>
      [`links ${what}`, number(`assumptions/links/${i}/bytes_per_second`, 'B/s') + ', ' +
       number(`assumptions/links/${i}/alpha_seconds`, 's')])];
  return (measured ? '<p>Products go at rates measured by shape.</p>' : '') +
    table(['what', '>value'], rows);
}

const panels = [
  ['time', 'Where the seconds go', timePanel],
  ['sharding', 'How tensors are split', shardingPanel],
  ['memory', 'Memory over the step', memoryPanel],
  ['timeline', 'Timeline of the pipeline', timelinePanel],
  ['communication', 'Communication', communicationPanel],
  ['alternatives', 'What else could be chosen', alternativesPanel],
  ['assumptions', 'What the planner assumed', assumptionsPanel],
].map(([id, title, draw]) => ({id, title, html: draw()})).filter(panel => panel.html !== '');
document.querySelector('dl').innerHTML = summary();
document.title = `Plan: ${document.querySelector('dd').textContent}`;
document.querySelector('nav').innerHTML =
  panels.map(({id, title}) => `<a href="#${id}">${title}</a>`).join('');
document.querySelector('main').innerHTML = panels.map(({id, title, html}) =>
  `<section id="${id}"><h2>${title}</h2>${html}</section>`).join('');

// --- Marks say what they are; a part of the timeline can be looked at closely

const tip = document.getElementById('tip');
function show(mark, x, y) {
  tip.textContent = mark.dataset.tip;
  tip.style.display = 'block';
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + 'px';
  tip.style.top = (y + 16 + box.height > innerHeight ? y - box.height - 8 : y + 16) + 'px';
}
function hide() { tip.style.display = 'none'; }
const markOf = event => event.target.closest && event.target.closest('[data-tip]');
document.addEventListener('pointermove', event => {
  const mark = markOf(event);
  mark ? show(mark, event.clientX, event.clientY) : hide();
});
document.addEventListener('pointerdown', event => {
  const mark = markOf(event);
  if (mark) show(mark, event.clientX, event.clientY);
});
document.addEventListener('focusin', event => {
  const mark = markOf(event);
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
      const x = Number(text.getAttribute('x')), scale = `scale(${wide / width} 1)`;
      text.setAttribute('transform', `translate(${x} 0) ${scale} translate(${-x} 0)`);
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
