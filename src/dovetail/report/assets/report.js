"use strict";
(() => {
  const UNIT_W = 150, UNIT_H = 34, GAP_X = 24, GAP_Y = 30;
  const runs = JSON.parse(document.getElementById("data").textContent);
  const hues = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#e15759", "#76b7b2", "#edc948"];
  const dark = () => document.documentElement.dataset.theme === "dark" ||
    (document.documentElement.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const time = (ns) => ns == null ? "-" : ns >= 1e9 ? (ns / 1e9).toFixed(2) + " s" : ns >= 1e6 ? (ns / 1e6).toFixed(2) + " ms" :
    ns >= 1e3 ? (ns / 1e3).toFixed(2) + " us" : ns.toFixed(0) + " ns";
  const figure = (x) => x == null ? "-" : String(Number(x.toPrecision(4)));
  const heat = (share) => { // From pale to dark red; readable text is chosen by brightness.
    const t = Math.max(0, Math.min(1, share)), a = [254, 240, 217], b = [179, 0, 0];
    return "rgb(" + a.map((v, i) => Math.round(v + (b[i] - v) * t)).join(",") + ")";
  };
  const bright = (color) => {
    const c = color.startsWith("#") ? [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16)) : color.match(/\d+/g).map(Number);
    return (c[0] * 299 + c[1] * 587 + c[2] * 114) / 1000 > 140;
  };
  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text != null) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  };

  class Graph {
    constructor(root, run) {
      this.root = root; this.units = run.units; this.run = run; this.selected = -1;
      this.canvas = root.querySelector("canvas"); this.context = this.canvas.getContext("2d");
      this.details = root.querySelector(".details"); this.legend = root.querySelector(".legend");
      this.scale = 1; this.x = 0; this.y = 0; this.waiting = false; this.frames = 0;
      this.boxes = this.units.map((u) => ({ x: u.x * (UNIT_W + GAP_X), y: u.layer * (UNIT_H + GAP_Y) }));
      this.color("device"); this.listen(); this.list();
      new ResizeObserver(() => { this.size(); if (!this.moved) this.start(); this.draw(); }).observe(this.canvas);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    }
    size() {
      const box = this.canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
      this.width = box.width; this.height = box.height;
      this.canvas.width = Math.max(1, Math.round(box.width * ratio)); this.canvas.height = Math.max(1, Math.round(box.height * ratio));
    }
    start() { // The whole width, readable, from the top.
      const xs = this.boxes.map((b) => b.x), low = Math.min(...xs), high = Math.max(...xs);
      this.scale = Math.max(.35, Math.min(1, this.width / (high - low + 2 * UNIT_W)));
      this.x = this.width / 2 - this.boxes[0].x * this.scale; this.y = UNIT_H;
    }
    fit() {
      const xs = this.boxes.map((b) => b.x), ys = this.boxes.map((b) => b.y);
      const w = Math.max(...xs) - Math.min(...xs) + 2 * UNIT_W, h = Math.max(...ys) + 3 * UNIT_H;
      this.scale = Math.min(2, this.width / w, this.height / h);
      this.x = this.width / 2 - (Math.max(...xs) + Math.min(...xs)) / 2 * this.scale; this.y = UNIT_H * this.scale;
      this.moved = true; this.draw();
    }
    zoom(factor, cx = this.width / 2, cy = this.height / 2) {
      const next = Math.max(.01, Math.min(4, this.scale * factor)), real = next / this.scale;
      this.x = cx - (cx - this.x) * real; this.y = cy - (cy - this.y) * real; this.scale = next; this.moved = true; this.draw();
    }
    pan(dx, dy) { this.x += dx; this.y += dy; this.moved = true; this.draw(); }
    color(mode) {
      this.mode = mode;
      const entries = new Map(), units = this.units;
      if (mode === "device" || mode === "precision") {
        const of = (u) => mode === "device" ? u.target : u.precision;
        [...new Set(units.map(of))].sort((a, b) => (a === "cpu") - (b === "cpu") || (a < b ? -1 : 1)).forEach((name, i) => entries.set(name, hues[i % hues.length]));
        this.fill = units.map((u) => entries.get(of(u)));
      } else if (mode === "difference") {
        this.fill = units.map((u) => u.changed ? "#e15759" : "#bfc5cc");
        entries.set("same in both runs", "#bfc5cc"); entries.set("placed otherwise", "#e15759");
      } else {
        const value = (u) => mode === "time" ? u.latency_ns : u.noise;
        const top = Math.max(...units.map((u) => value(u) || 0), 1e-12);
        this.fill = units.map((u) => value(u) == null ? "#bfc5cc" : heat(value(u) / top));
        const show = (v) => mode === "time" ? time(v) : figure(v);
        entries.set("0", heat(0)); entries.set(show(top / 2), heat(.5)); entries.set(show(top), heat(1)); entries.set("not known", "#bfc5cc");
      }
      this.legend.replaceChildren();
      for (const [name, hue] of entries) { const item = make("li", null, this.legend); make("span", null, item).style.background = hue; item.append(name); }
      this.draw();
    }
    draw() { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.paint(); }); } }
    paint() {
      if (!this.width) return;
      this.frames += 1;
      const c = this.context, ratio = devicePixelRatio || 1, s = this.scale, edge = css("--edge"), text = css("--fg"), focus = css("--focus"), bad = css("--bad");
      c.setTransform(ratio, 0, 0, ratio, 0, 0); c.clearRect(0, 0, this.width, this.height);
      c.setTransform(ratio * s, 0, 0, ratio * s, ratio * this.x, ratio * this.y);
      const left = -this.x / s - UNIT_W, right = (this.width - this.x) / s + UNIT_W, top = -this.y / s - UNIT_H, bottom = (this.height - this.y) / s + UNIT_H;
      c.lineWidth = Math.max(1, .7 / s); c.strokeStyle = edge; c.beginPath();
      const borders = [];
      this.units.forEach((unit, index) => {
        const b = this.boxes[index];
        for (const [k, source] of unit.inputs.entries()) {
          const bends = unit.bends[k], a = this.boxes[source], y0 = a.y + UNIT_H / 2, y1 = b.y - UNIT_H / 2;
          if (y1 < top || y0 > bottom) continue;
          if (this.units[source].place !== unit.place) { borders.push([a, b, bends]); continue; }
          this.edge(c, a, b, bends);
        }
      });
      c.stroke(); c.strokeStyle = bad; c.lineWidth *= 2; c.setLineDash([6, 4]); c.beginPath();
      for (const [a, b, bends] of borders) this.edge(c, a, b, bends);
      c.stroke(); c.setLineDash([]);
      c.font = "12px system-ui, sans-serif"; c.textAlign = "center"; c.textBaseline = "middle";
      this.units.forEach((unit, index) => {
        const b = this.boxes[index];
        if (b.x < left || b.x > right || b.y < top || b.y > bottom) return;
        c.fillStyle = this.fill[index]; c.fillRect(b.x - UNIT_W / 2, b.y - UNIT_H / 2, UNIT_W, UNIT_H);
        const marked = unit.role === "culprit" || unit.role === "companion" || unit.changed;
        if (marked || index === this.selected) {
          c.lineWidth = index === this.selected ? 4 : 3; c.strokeStyle = index === this.selected ? focus : text;
          c.strokeRect(b.x - UNIT_W / 2, b.y - UNIT_H / 2, UNIT_W, UNIT_H);
        }
        if (s > .3) {
          c.fillStyle = bright(this.fill[index]) ? "#000" : "#fff";
          const name = unit.name.length > 22 ? "\u2026" + unit.name.slice(-21) : unit.name;
          c.fillText(unit.ops.split(" ")[0] + (unit.role === "culprit" ? " \u25b2" : ""), b.x, b.y - 7); c.fillText(name, b.x, b.y + 8);
        }
      });
    }
    edge(c, a, b, bends) { // Through a gap between the units of each layer that it passes.
      let x = a.x, y = a.y + UNIT_H / 2;
      c.moveTo(x, y);
      if (this.scale < .2) { // Nobody sees a curve there, and it costs ten times as much.
        bends.forEach((bend, i) => c.lineTo(bend * (UNIT_W + GAP_X), a.y + (i + 1) * (UNIT_H + GAP_Y)));
        c.lineTo(b.x, b.y - UNIT_H / 2); return;
      }
      bends.forEach((bend, i) => {
        const next = bend * (UNIT_W + GAP_X), at = a.y + (i + 1) * (UNIT_H + GAP_Y), top = at - UNIT_H / 2, middle = (y + top) / 2;
        c.bezierCurveTo(x, middle, next, middle, next, top); c.lineTo(next, at + UNIT_H / 2); x = next; y = at + UNIT_H / 2;
      });
      const end = b.y - UNIT_H / 2, middle = (y + end) / 2;
      c.bezierCurveTo(x, middle, b.x, middle, b.x, end);
    }
    at(px, py) {
      const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale;
      return this.boxes.findIndex((b) => Math.abs(b.x - x) <= UNIT_W / 2 && Math.abs(b.y - y) <= UNIT_H / 2);
    }
    select(index, center = false) {
      if (index < 0 || index >= this.units.length) return;
      this.selected = index; this.show(this.units[index]);
      if (center) { const b = this.boxes[index]; this.x = this.width / 2 - b.x * this.scale; this.y = this.height / 2 - b.y * this.scale; this.moved = true; }
      this.draw();
    }
    show(unit) {
      const box = this.details; box.replaceChildren(); make("h3", unit.name, box);
      const rows = [["operators", unit.ops], ["nodes", unit.nodes.join(", ")], ["runs on", unit.place + (unit.partition == null ? "" : `, partition ${unit.partition}`)],
        ["role", unit.role], ["why", unit.reason], ["makes", unit.shape],
        ["range", unit.low == null ? "" : `${figure(unit.low)} .. ${figure(unit.high)}`],
        ["noise at low precision", unit.noise == null ? "" : `${figure(unit.noise)}: ${unit.noise_reason}`],
        ["time", unit.latency_ns == null ? "" : `${time(unit.latency_ns)} (${unit.source})`], ["multiply-adds", unit.macs ? unit.macs.toLocaleString("en") : ""],
        ["score without it", unit.score_without == null ? "" : figure(unit.score_without)], ["in the other run", unit.changed || ""]];
      const list = make("dl", null, box);
      for (const [name, value] of rows) if (value) { make("dt", name, list); make("dd", value, list); }
      if (unit.channels.length) this.channels(unit, box);
    }
    channels(unit, box) { // RMS of channels on a logarithmic scale.
      make("h3", "Channels by RMS", box);
      const live = unit.channels.filter((v) => v > 0), top = Math.max(...live, 1e-30), low = Math.min(...live, top), span = Math.log(top / low) || 1;
      const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
      svg.setAttribute("viewBox", "0 0 320 80"); svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `RMS of channels from ${figure(low)} to ${figure(top)}, ${unit.channels.length - live.length} of ${unit.channels.length} dead`);
      unit.channels.forEach((v, i) => {
        const bar = document.createElementNS(ns, "rect"), h = v > 0 ? 8 + 68 * Math.log(v / low) / span : 1, w = 320 / unit.channels.length;
        for (const [key, value] of Object.entries({ x: i * w, y: 80 - h, width: Math.max(1, w - 1), height: h, fill: "#4e79a7" })) bar.setAttribute(key, value);
        svg.append(bar);
      });
      box.append(svg); make("p", `${figure(low)} to ${figure(top)}, each bar a channel, logarithmic`, box).className = "note";
    }
    list() { // The same for those who do not see the canvas, made when it is opened.
      const holder = this.root.querySelector(".units");
      holder.addEventListener("toggle", () => {
        if (!holder.open || holder.querySelector("table")) return;
        const table = make("table", null, make("div", null, holder)), head = make("tr", null, table);
        table.parentNode.className = "wide"; table.parentNode.tabIndex = 0; table.parentNode.setAttribute("role", "group"); table.parentNode.setAttribute("aria-label", "Units");
        for (const title of ["unit", "operators", "runs on", "noise", "time", "role"]) make("th", title, head).scope = "col";
        this.units.forEach((unit, index) => {
          const row = make("tr", null, table), button = make("button", unit.name, make("td", null, row));
          button.addEventListener("click", () => this.select(index, true));
          for (const value of [unit.ops, unit.place, figure(unit.noise), time(unit.latency_ns), unit.role]) make("td", value, row);
        });
      });
    }
    find(text) {
      const wanted = text.toLowerCase(), count = this.units.length;
      for (let step = 1; step <= count; step++) {
        const index = (this.selected + step + count) % count, u = this.units[index];
        if ([u.name, u.ops, ...u.nodes].some((t) => t.toLowerCase().includes(wanted))) { this.select(index, true); return true; }
      }
      return false;
    }
    listen() {
      const canvas = this.canvas, pointers = new Map(); let travelled = 0, spread = 0;
      canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, e); travelled = 0; spread = 0; });
      canvas.addEventListener("pointermove", (e) => {
        const before = pointers.get(e.pointerId);
        if (!before) return;
        const dx = e.clientX - before.clientX, dy = e.clientY - before.clientY;
        pointers.set(e.pointerId, e); travelled += Math.abs(dx) + Math.abs(dy);
        if (pointers.size === 2) {
          const [a, b] = [...pointers.values()], apart = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY), box = canvas.getBoundingClientRect();
          if (spread) this.zoom(apart / spread, (a.clientX + b.clientX) / 2 - box.left, (a.clientY + b.clientY) / 2 - box.top);
          spread = apart;
        } else this.pan(dx, dy);
      });
      const end = (e) => {
        if (pointers.delete(e.pointerId) && travelled < 5 && e.type === "pointerup") { const box = canvas.getBoundingClientRect(); this.select(this.at(e.clientX - box.left, e.clientY - box.top)); }
      };
      canvas.addEventListener("pointerup", end); canvas.addEventListener("pointercancel", end);
      canvas.addEventListener("wheel", (e) => {
        if (!e.ctrlKey && document.activeElement !== canvas) return; // The page scrolls until the graph has the focus.
        e.preventDefault(); const box = canvas.getBoundingClientRect();
        this.zoom(Math.exp(-e.deltaY / 400), e.clientX - box.left, e.clientY - box.top);
      }, { passive: false });
      const keys = { ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0), ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60),
        "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(.8), "0": () => this.fit(),
        n: () => this.select(this.selected + 1, true), p: () => this.select(Math.max(0, this.selected - 1), true), c: () => this.culprit() };
      canvas.addEventListener("keydown", (e) => { if (!e.ctrlKey && !e.metaKey && !e.altKey && keys[e.key]) { e.preventDefault(); keys[e.key](); } });
      this.root.querySelector("select").addEventListener("change", (e) => this.color(e.target.value));
      for (const [name, act] of [["in", () => this.zoom(1.25)], ["out", () => this.zoom(.8)], ["fit", () => this.fit()], ["culprit", () => this.culprit()]])
        this.root.querySelector(`[data-act=${name}]`).addEventListener("click", act);
      this.root.querySelector("form").addEventListener("submit", (e) => {
        e.preventDefault(); const field = this.root.querySelector("input"), found = this.find(field.value);
        field.setCustomValidity(found ? "" : "no unit has this name"); if (!found) field.reportValidity();
      });
      this.root.querySelector("input").addEventListener("input", (e) => e.target.setCustomValidity(""));
    }
    culprit() {
      const count = this.units.length;
      for (let step = 1; step <= count; step++) {
        const index = (this.selected + step + count) % count;
        if (["culprit", "companion"].includes(this.units[index].role) || this.units[index].changed) { this.select(index, true); return; }
      }
    }
  }
  const graphs = [...document.querySelectorAll("[data-run]")].map((root) => new Graph(root, runs[Number(root.dataset.run)]));
  const theme = document.getElementById("theme");
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    theme.setAttribute("aria-pressed", String(dark())); graphs.forEach((g) => g.draw());
  });
  theme.setAttribute("aria-pressed", String(dark()));
  window.dovetailGraphs = graphs;
})();
