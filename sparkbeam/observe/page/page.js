"use strict";
const HOUR = 3600, EVERY = 1000, PATIENCE = 5000;
const byId = (id) => document.getElementById(id);
let past = [];
let opened = new Set();
let shown = "";

// All text goes in as text: nothing of a pipeline is markup here.
function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function drawing(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function showFacts(list, facts) {
  list.replaceChildren(...facts.map(([label, text]) =>
    element("div", "", ...(label ? [element("dt", label)] : []), element("dd", text))));
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

function showGraph(stages) {
  for (const stage of stages) {
    const box = byId("graph").querySelector(`[data-stage="${CSS.escape(stage.id)}"]`);
    if (!box) continue;
    box.dataset.state = stage.state;
    const lines = stage.box.filter(Boolean);
    box.querySelectorAll(".figure").forEach((line, at) => { line.textContent = lines[at] || ""; });
  }
}

function tableRows(lines) {
  return lines.map((cells) => element("tr", "", ...cells.map((cell) => element("td", cell))));
}

function steps(stage) {
  const head = ["step", "in", "out", "time", "bytes out", ""];
  const rows = tableRows(stage.steps);
  const table = element("table", "",
    element("thead", "", element("tr", "", ...head.map((cell) => element("th", cell)))),
    element("tbody", "", ...rows));
  const scroll = element("div", "", table);
  scroll.className = "scroll";
  const folded = element("details", "", element("summary", "steps"), scroll);
  folded.open = opened.has(stage.id);
  folded.addEventListener("toggle", () => {
    if (folded.open) opened.add(stage.id); else opened.delete(stage.id);
  });
  return folded;
}

function showStages(stages) {
  const now = JSON.stringify(stages);
  if (now === shown) return;  // What somebody reads or selects stays as it is.
  shown = now;
  byId("stages").replaceChildren(...stages.map((stage) => {
    const list = document.createElement("dl");
    showFacts(list, stage.facts);
    const card = element("div", "", element("h3", stage.name), list);
    card.className = "stage";
    card.dataset.id = stage.id;
    card.dataset.state = stage.state;
    if (stage.tasks) {
      const bar = document.createElement("progress");
      bar.max = stage.tasks;
      bar.value = stage.done;
      card.append(bar);
    }
    if (stage.steps.length) card.append(steps(stage));
    return card;
  }));
}

function showSpans(stages) {
  const begun = stages.filter((stage) => stage.since !== null);
  byId("spans").hidden = begun.length === 0;
  const end = Math.max(...begun.map((stage) => stage.since + stage.seconds), 0.001);
  byId("bars").replaceChildren(...begun.map((stage) => {
    const svg = drawing("svg", { viewBox: "0 0 1000 10", preserveAspectRatio: "none" });
    svg.append(drawing("rect", {
      x: (stage.since / end) * 1000, width: Math.max(2, (stage.seconds / end) * 1000),
      y: 0, height: 10,
    }));
    const name = element("span", stage.name);
    name.className = "name";
    const bar = element("div", "", name, svg, element("span", stage.when));
    bar.className = "bar";
    bar.dataset.state = stage.state;
    return bar;
  }));
}

function chart(title, unit, points) {
  const known = points.filter(([, value]) => value !== null);
  const most = Math.max(...known.map(([, value]) => value), 0);
  const first = points[0][0], width = Math.max(1, points[points.length - 1][0] - first);
  const svg = drawing("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img" });
  const place = ([time, value]) =>
    `${((time - first) / width) * 1000},${97 - (value / (most || 1)) * 92}`;
  svg.append(drawing("polyline", { points: known.map(place).join(" ") }));
  const last = known.length ? known[known.length - 1][1] : 0;
  const say = (value) => value.toLocaleString(undefined, { maximumFractionDigits: 1 });
  const caption = `${title}: ${say(last)} ${unit}, at most ${say(most)} ${unit}`;
  return element("figure", "", element("figcaption", caption), svg);
}

function showHistory() {
  byId("past").hidden = past.length === 0;
  if (!past.length) return;
  // The elements of a micro-batch count for the time since the one before.
  const rates = past.map((at, index) => {
    const before = index ? past[index - 1].time : at.time - at.seconds;
    return [at.time, at.elements / Math.max(1, at.time - before)];
  });
  const charts = [
    chart("longest micro-batch", "s", past.map((at) => [at.time, at.seconds])),
    chart("elements", "/s", rates),
  ];
  if (past.some((at) => at.lag !== null)) {
    charts.push(chart("behind", "s", past.map((at) => [at.time, at.lag])));
  }
  byId("charts").replaceChildren(...charts);
  byId("batches").replaceChildren(...past.slice(-20).reverse().map((at) => element("tr", "",
    element("td", String(at.number)), element("td", clock(at.time)),
    element("td", String(at.batches)), element("td", `${at.seconds.toFixed(2)} s`),
    element("td", at.elements.toLocaleString()),
    element("td", at.lag === null ? "" : `${at.lag.toFixed(1)} s`))));
}

function remember(moments) {
  if (!moments.length) return;
  const from = moments[0].time;
  past = past.filter((at) => at.time < from).concat(moments);
  const last = past[past.length - 1].time;
  past = past.filter((at) => at.time > last - HOUR);
}

function showPartitions(partitions) {
  byId("hubs").hidden = partitions.length === 0;
  byId("partitions").replaceChildren(...tableRows(partitions));
}

function showNotes(notes) {
  byId("noted").hidden = notes.length === 0;
  byId("notes").replaceChildren(...notes.map(([step, text, times, last]) => {
    const when = element("span", `${clock(last)}${times > 1 ? `, ${times} times` : ""} `);
    when.className = "soft";
    return element("li", "", when, element("b", `${step}: `), text);
  }));
}

function show(page) {
  byId("state").textContent = page.state;
  document.body.dataset.over = page.over;
  showFacts(byId("facts"), page.facts);
  byId("error").hidden = !page.error;
  byId("error").textContent = page.error;
  showGraph(page.stages);
  showStages(page.stages);
  showPartitions(page.partitions);
  showSpans(page.stages);
  remember(page.history);
  showHistory();
  showNotes(page.notes);
}

function sayGone(text) {
  byId("gone").textContent = text;
  document.body.classList.toggle("gone", text !== "");
}

async function look() {
  let seen = "";
  const since = past.length ? past[past.length - 1].time : 0;
  const ended = new AbortController();
  const timer = setTimeout(() => ended.abort(), PATIENCE);
  try {
    const answer = await fetch(`state.json?since=${since}`, { signal: ended.signal });
    if (answer.status === 404) seen = "This page is no longer available.";
    else if (!answer.ok) seen = "The page cannot show the pipeline now.";
    else {
      const page = await answer.json();
      show(page);
      seen = page.gone;
    }
  } catch (error) {
    seen = document.body.dataset.over === "true"
      ? "The program has ended."
      : "The pipeline is lost: its program does not respond.";
  } finally {
    clearTimeout(timer);
  }
  sayGone(seen);
}

async function follow() {
  if (!document.hidden) await look();
  setTimeout(follow, EVERY);
}
follow();
