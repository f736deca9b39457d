import { ask } from "../api.js";
import { histogram, legend, timeline } from "../charts.js";
import { bars, count, el, ms, panel, percent } from "../dom.js";

const seconds = (s) => ms(s * 1000);

function tile(name, value, unit, sub) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value, unit ? el("small", {}, unit) : null), el("dd", { class: "sub" }, sub ?? ""));
}

function quantile(data, share) {
  let reached = 0;
  for (let i = 0; i < data.counts.length; i++) {
    reached += data.counts[i];
    if (data.count && reached >= share * data.count) return data.bounds_s[i] ?? data.bounds_s.at(-1);
  }
  return null;
}

function between(data) {
  const low = quantile(data, 0.5), high = quantile(data, 0.99);
  return low === null ? "no request yet" : `half within ${seconds(low)}, 99 % within ${seconds(high)}`;
}

function tiles(now) {
  const e = now.engine, h = now.histograms, served = now.goodput.met + now.goodput.missed;
  const first = quantile(h.first, 0.5);
  const asked = e.prefix_cache_asked_tokens_total, drafted = e.tokens_drafted_total;
  return el("dl", { class: "tiles", "aria-label": "Now" },
    tile("Running", count(e.requests_running), null, `${count(e.requests_waiting)} waiting`),
    tile("First text", first === null ? "–" : seconds(first), null, "median, after rails"),
    tile("Goodput", served ? percent(now.goodput.met / served) : "–", null, `of ${count(served)} requests`),
    tile("KV cache", percent(e.kv_cache_usage_ratio), null, asked ? `${percent(e.prefix_cache_hit_tokens_total / asked)} of prompts reused` : "no prompt yet"),
    tile("Mean batch", e.steps_total ? (e.batched_rows_total / e.steps_total).toFixed(1) : "–", "rows", drafted ? `${percent(e.tokens_accepted_total / drafted)} of guesses right` : "no guesses"),
    tile("Loop lag", now.lag.p99_s === undefined ? "–" : seconds(now.lag.p99_s), null, "99th percentile of a minute"));
}

function verdicts(slice) {
  const found = { pass: 0, redact: 0, escalate: 0, block: 0 };
  for (const [, verdict, n] of slice.verdicts) found[verdict === "failed" ? "block" : verdict in found ? verdict : "block"] += n;
  return Object.entries(found);
}

function drawn(now) {
  const over = { sliceS: now.slice_s, nowS: now.now_s };
  const rails = new Map();
  for (const [rail, verdict, n] of now.verdicts) {
    const line = rails.get(rail) ?? { pass: 0, all: 0 };
    line.all += n;
    if (verdict === "pass") line.pass += n;
    rails.set(rail, line);
  }
  const h = now.histograms, o = now.objectives;
  return [
    tiles(now),
    el("div", { class: "grid two" },
      panel("Requests", "each bar ten seconds", timeline(now.series, { label: "Requests", ...over, split: (s) => [["ok", s.requests - s.errors - s.refused - s.cached], ["cached", s.cached], ["redact", s.refused], ["error", s.errors]] }),
        legend([["ok", "answered"], ["cached", "from the cache"], ["redact", "refused by a rail"], ["error", "failed"]])),
      panel("Verdicts of rails", "each bar ten seconds", timeline(now.series, { label: "Verdicts", ...over, split: verdicts }),
        legend([["pass", "pass"], ["redact", "redact"], ["escalate", "escalate"], ["block", "block"]]))),
    el("div", { class: "grid three" },
      panel("To the first text", between(h.first), histogram(h.first, { label: "Seconds to the first text", objective: o.first_s, format: seconds })),
      panel("Between two texts", between(h.token), histogram(h.token, { label: "Seconds between two texts", objective: o.token_s, format: seconds })),
      panel("Whole request", between(h.total), histogram(h.total, { label: "Seconds of whole requests", objective: o.total_s, format: seconds }))),
    el("div", { class: "grid three" },
      panel("Waiting for the engine", between(h.queue), histogram(h.queue, { label: "Seconds in the queue", format: seconds })),
      panel("Held back by rails", between(h.held), histogram(h.held, { label: "Longest hold of a request", format: seconds })),
      panel("Rails", "requests that each let pass unchanged", rails.size ? bars([...rails].map(([name, l]) => [name, l.all ? l.pass / l.all : 0]), percent) : el("p", { class: "empty" }, "No rail has spoken yet."))),
  ];
}

export async function page({ signal, onTick }) {
  const body = el("div", { class: "grid" });
  const note = el("p", {});
  const refresh = async () => {
    const now = await ask("/admin/console/overview", { signal });
    note.textContent = `${now.models.map((m) => m.name).join(", ") || "no model"} · ${now.state} since ${new Date(now.started_s * 1000).toLocaleString()} · content ${now.content ? "shown" : "not kept"}`;
    body.replaceChildren(...drawn(now));
  };
  await refresh();
  let last = Date.now();
  onTick((tick) => {
    if (document.hidden || (Date.now() - last < 4000 && !tick.ended.length) || Date.now() - last < 1800) return;
    last = Date.now();
    refresh().catch(() => {});
  });
  return [el("div", { class: "head" }, el("h1", {}, "Overview"), note), body];
}
