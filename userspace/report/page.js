// The page of `xdpgpu metrics --listen`: asks for /status.json once a second and shows what it says. Texts go
// into the page as texts, never as HTML.
"use strict";

const KEPT = 120; // seconds of each line
const EVERY_MS = 1000;
const VERDICTS = ["in", "pass", "drop", "tx", "redirect", "error"];

let before = new Map(); // by attach: the status before
const lines = new Map(); // by attach and verdict: rates
const shown = new Map(); // by attach: what stands on the page
let paused = false;

function make(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function counted(value) {
  for (const [from, one, unit] of [[1e9, 1e9, " G"], [1e6, 1e6, " M"], [1e4, 1e3, " k"]])
    if (value >= from) return (value / one).toFixed(2) + unit;
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

function time(ns) {
  if (ns < 1e3) return ns + " ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(1) + " µs";
  if (ns < 1e9) return (ns / 1e6).toFixed(1) + " ms";
  return (ns / 1e9).toFixed(1) + " s";
}

function table(titles, rows) {
  const box = make("div", undefined, "wide");
  const node = make("table");
  const head = make("tr");
  for (const title of titles) head.append(make("th", title.name, title.number ? "number" : ""));
  node.append(head);
  for (const row of rows) {
    const line = make("tr");
    row.forEach((cell, i) => {
      const td = make("td", undefined, titles[i].number ? "number" : titles[i].words ? "words" : "");
      td.append(cell instanceof Node ? cell : String(cell));
      line.append(td);
    });
    node.append(line);
  }
  box.append(node);
  return box;
}

function bar(value, most) {
  const meter = document.createElement("meter");
  meter.max = most || 1;
  meter.value = value;
  meter.title = value + " of " + most;
  return meter;
}

function sparkline(values) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 " + (KEPT - 1) + " 30");
  svg.setAttribute("preserveAspectRatio", "none");
  const most = Math.max(1, ...values);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const first = KEPT - values.length;
  path.setAttribute("d", values.map((v, i) =>
    (i ? "L" : "M") + (first + i) + " " + (30 - 29 * v / most).toFixed(1)).join(" "));
  svg.append(path);
  return svg;
}

// Counters of one status less those of the one before, a second.
function rate(now, then, seconds) {
  return then === undefined || seconds <= 0 || now < then ? 0 : (now - then) / seconds;
}

function sum(list, of) {
  return list.reduce((all, one) => all + of(one), 0);
}

function reasons(status, old, seconds) {
  const rows = [];
  for (const port of status.ports) {
    const then = old && old.ports.find((one) => one.interface === port.interface);
    for (const [name, counter] of Object.entries(port.kernel))
      if (counter.packets) rows.push([port.interface + " " + name, counter.packets, rate(counter.packets, then && then.kernel[name].packets, seconds)]);
  }
  rows.sort((a, b) => b[2] - a[2] || b[1] - a[1]);
  return rows.slice(0, 16).map(([name, all, now]) => [name, counted(now), counted(all)]);
}

function rules(status, old, seconds) {
  const then = new Map(((old && old.rules) || []).map((rule) => [rule.name, rule.packets]));
  const rows = (status.rules || []).filter((rule) => rule.packets)
    .map((rule) => [rule.name, rule.packets, rate(rule.packets, then.get(rule.name), seconds)]);
  rows.sort((a, b) => b[2] - a[2] || b[1] - a[1]);
  return rows.slice(0, 16).map(([name, all, now]) => [name, counted(now), counted(all)]);
}

function queues(status, old, seconds) {
  const rows = [];
  for (const port of status.ports) {
    const then = old && old.ports.find((one) => one.interface === port.interface);
    for (const queue of port.queues) {
      if (!queue.metrics) continue;
      const { rings, ring_size: size, send_ring_size: send, latency_ns: latency } = queue.metrics;
      const was = then && then.queues.find((one) => one.queue === queue.queue);
      rows.push([port.interface + " " + queue.queue,
        counted(rate(queue.counters.received, was && was.counters.received, seconds)),
        bar(rings.rx.now, size), bar(rings.fill.now, size), bar(rings.tx.now, send),
        queue.credits, latency.count ? time(latency.p50) : "", latency.count ? time(latency.p99) : "",
        queue.device + ", " + queue.compute_mode]);
    }
  }
  return rows;
}

function facts(status) {
  const node = make("p", undefined, "facts");
  const say = (text, className) => node.append(make("span", text, className), " ");
  say("process " + status.pid + ", up " + Math.round(status.uptime_s) + " s, policy " + status.policy.hash.slice(0, 12));
  if (!status.devices) say("NO DATA PLANE: on_failure decides", "bad");
  if (status.policy.audit) say("AUDIT: nothing is dropped", "bad");
  for (const port of status.ports) if (port.state === "bypass") say(port.interface + ": BYPASS: everything passes", "bad");
  for (const device of status.devices || []) say(device.degraded ? device.name + ": " + device.degraded : device.name + " " + device.mode, device.degraded ? "bad" : "good");
  return node;
}

function show(one) {
  const key = one.netns + "/" + one.attach;
  const section = make("section");
  section.append(make("h2", one.attach + (one.netns ? " in " + one.netns : "")));
  const status = one.status;
  if (!status) {
    section.append(make("p", "It does not answer. See: xdpgpu status " + one.attach, "bad"));
    return section;
  }
  const known = before.get(key);
  const old = known && known.pid === status.pid ? known : undefined;
  const seconds = old ? status.uptime_s - old.uptime_s : 0;
  if (old && seconds <= 0 && shown.has(key)) return shown.get(key); // nothing new was told
  section.append(facts(status));
  const rates = make("div", undefined, "rates");
  for (const verdict of VERDICTS) {
    const now = rate(status.packets[verdict], old && old.packets[verdict], seconds);
    const line = lines.get(key + verdict) || [];
    if (old && seconds > 0) line.push(now);
    lines.set(key + verdict, line.slice(-KEPT));
    const box = make("div", undefined, "rate");
    box.append(make("span", verdict + ", packets/s"), make("b", counted(now)), sparkline(line.slice(-KEPT)));
    rates.append(box);
  }
  section.append(rates);
  const columns = make("div", undefined, "columns");
  const part = (title, titles, rows, to) => {
    if (!rows.length) return;
    const box = make("div");
    box.append(make("h3", title), table(titles, rows));
    to.append(box);
  };
  const counts = [{ name: "", words: true }, { name: "packets/s", number: true }, { name: "packets", number: true }];
  part("What the kernel did", counts, reasons(status, old, seconds), columns);
  part("Rules", counts, rules(status, old, seconds), columns);
  section.append(columns);
  part("Queues", [{ name: "" }, { name: "packets/s", number: true }, { name: "RX" }, { name: "fill" }, { name: "TX" },
    { name: "credits", number: true }, { name: "p50", number: true }, { name: "p99", number: true }, { name: "device" }],
  queues(status, old, seconds), section);
  part("Tables of stages", [{ name: "" }, { name: "live", number: true }, { name: "of", number: true }, { name: "pressure" }],
    (status.tables || []).map((one) => [one.pipeline + " " + one.stage + " " + one.kind, counted(one.live), counted(one.entries), bar(one.pressure_percent, 100)]), section);
  part("Alarms", [{ name: "target" }, { name: "metric" }, { name: "value", number: true }, { name: "threshold", number: true }],
    ((status.alarms && status.alarms.on) || []).map((one) => [one.target, one.metric, counted(one.value), counted(one.threshold)]), section);
  before.set(key, status);
  shown.set(key, section);
  return section;
}

async function ask() {
  const state = document.getElementById("state");
  try {
    const reply = await fetch("status.json", { cache: "no-store" });
    if (!reply.ok) throw new Error("HTTP status " + reply.status);
    const all = await reply.json();
    const sections = all.map(show);
    document.getElementById("attaches").replaceChildren(...(sections.length ? sections :
      [make("p", "No interface is attached. Attach one: xdpgpu attach IF")]));
    state.textContent = "live, " + new Date().toLocaleTimeString();
    state.className = "";
  } catch (error) {
    state.textContent = "no answer: " + error.message;
    state.className = "bad";
  }
}

document.getElementById("pause").addEventListener("click", (event) => {
  paused = !paused;
  event.target.textContent = paused ? "Go on" : "Pause";
});
async function go() {
  if (!paused && !document.hidden) await ask();
  setTimeout(go, EVERY_MS);
}
go();
