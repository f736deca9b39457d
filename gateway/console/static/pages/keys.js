import { ask } from "../api.js";
import { columns, columnsTable, gauge } from "../columns.js";
import { chip, count, el, panel, plural } from "../dom.js";
import { choice, copyButton, labelled, outcome, question, sure, textInput } from "../forms.js";
import { limitFields, limitWords, limitsOf } from "../limits.js";
import { filterBar, keepAddress } from "../list.js";
import { daysAgo, daysSince, money, spentBy, stacked, usageRows } from "../money.js";
import { cards, table } from "../tables.js";

const MOST = 200; // rows of one table; more are found by the filter
const STATES = { active: "good", expired: "warn", revoked: "bad" };
const WHO = [["key_id", "Key"], ["team", "Team"], ["feature", "Feature"], ["model", "Model"]];
const FILTERS = [{ name: "q", label: "Find", hint: "id, tenant, team" }, { name: "state", label: "State", options: [["", "All"], ["active", "Active"], ["expired", "Expired"], ["revoked", "Revoked"]] },
  { name: "days", label: "Cost of the last", standard: "30", options: [["7", "7 days"], ["30", "30 days"], ["90", "90 days"]] }, { name: "by", label: "Cost by", standard: "key_id", options: WHO.map(([value, name]) => [value, name.toLowerCase()]) }];

export async function page({ signal, params }) {
  const body = el("div", { class: "grid" }), { line, tell, attempt } = outcome(), secret = el("div", { "aria-live": "polite" });
  let set = params;
  const draw = async () => {
    const days = Number(set.get("days") ?? 30), by = WHO.find(([name]) => name === set.get("by"))?.[0] ?? "key_id", first = [daysAgo(days - 1), `${daysAgo(0).slice(0, 7)}-01`].sort();
    const [keys, teams, rows, sums] = await Promise.all([ask("/admin/keys", { signal }), ask("/admin/teams", { signal }), usageRows(first[0], ["day", "key_id", "team"], signal), usageRows(daysAgo(days - 1), ["day", by], signal)]);
    const currency = rows[0]?.currency ?? "", shown = keys.data.filter((record) => matches(record, set));
    body.replaceChildren(costPanel(sums, daysSince(daysAgo(days - 1)), by, currency),
      keysPanel(shown, keys.data.length, spentBy(rows, "key_id"), currency, acts),
      teamsPanel(teamsOf(teams.data, keys.data), spentBy(rows, "team"), currency, acts, keys.kept),
      keys.kept ? newKeyPanel(create) : panel("New key", null, el("p", { class: "empty" }, "This gateway keeps no keys: set [accounts] path or [database] url in its configuration. Those of [[keys]] are shown above.")));
  };
  const again = (act) => async () => { if (await attempt(act)) await draw(); };
  const acts = {
    revoke: async (record) => { if (await sure(`Revoke ${record.id}?`, "Whoever uses it is refused from now on. A revoked key cannot be brought back.", "Revoke")) await again(async () => { await ask(`/admin/keys/${encodeURIComponent(record.id)}`, { method: "DELETE" }); return `${record.id} is revoked.`; })(); },
    rotate: async (record) => {
      const answer = await question(`Rotate ${record.id}`, labelled("The old secret stays good for", choice("grace_s", [["0", "no time"], ["3600", "an hour"], ["86400", "a day"], ["604800", "a week"]], "86400")), "Rotate");
      if (answer) await again(async () => { showSecret(await ask(`/admin/keys/${encodeURIComponent(record.id)}/rotate`, { method: "POST", body: { grace_s: Number(answer.grace_s) } })); return `${record.id} has a new secret.`; })();
    },
    limit: async (kind, name, now) => {
      const answer = await question(`Limits of ${kind} ${name}`, limitFields("limit", now), "Set limits"), path = kind === "team" ? `/admin/teams/${encodeURIComponent(name)}` : `/admin/keys/${encodeURIComponent(name)}/limits`;
      if (answer) await again(async () => { await ask(path, { method: "PUT", body: limitsOf(answer) }); return `The limits of ${kind} ${name} are set.`; })();
    },
  };
  const showSecret = (made) => secret.replaceChildren(el("div", { class: "secret", role: "group", "aria-label": "New secret" }, el("p", {}, el("strong", {}, `The secret of ${made.id}`), ", shown this once:"), el("code", { id: "new-secret" }, made.key),
    el("div", { class: "row" }, copyButton("Copy", made.key), el("button", { type: "button", class: "quiet", on: { click: () => secret.replaceChildren() } }, "I have it"))));
  async function create(form) {
    const values = Object.fromEntries(new FormData(form)), many = (name) => values[name].split(",").map((word) => word.trim()).filter(Boolean), some = (name) => many(name).length ? many(name) : null;
    const asked = { id: values.id.trim(), tenant: values.tenant.trim(), team: values.team.trim(), scopes: many("scopes"), models: some("models"), tools: some("tools"), routes: some("routes"), rails: many("rails"), expires: values.expires || null, limits: limitsOf(values) };
    const done = await attempt(async () => { showSecret(await ask("/admin/keys", { method: "POST", body: asked })); return `${asked.id} is made.`; });
    if (done) { form.reset(); await draw(); }
    secret.scrollIntoView({ block: "nearest" });
  }
  await draw();
  const bar = filterBar(FILTERS, params, (found) => { set = found; keepAddress("keys", found); draw().catch((error) => tell(error.message, true)); });
  return [el("div", { class: "head" }, el("h1", {}, "Keys and teams"), el("p", {}, "who may use this gateway, how much, and what it cost")), bar, line, secret, body];
}

function matches(record, set) {
  const wanted = (set.get("q") ?? "").toLowerCase(), said = [record.id, record.tenant, record.team, ...record.scopes].join("\n").toLowerCase();
  return said.includes(wanted) && (!set.get("state") || record.state === set.get("state"));
}

function costPanel(rows, days, by, currency) {
  const { slots, kinds, whole } = stacked(rows, days, by, "cost"), format = (value) => money(value, currency), name = WHO.find(([value]) => value === by)[1].toLowerCase();
  const sums = new Map();
  for (const row of rows) {
    const sum = sums.get(row[by]) ?? { requests: 0, errors: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 };
    for (const field of Object.keys(sum)) sum[field] += row[field];
    sums.set(row[by], sum);
  }
  const lines = [...sums].sort((a, b) => b[1].cost - a[1].cost || b[1].requests - a[1].requests).slice(0, MOST).map(([who, sum]) => el("tr", {}, el("td", { class: "breaks" }, who || "none"), el("td", { class: "number" }, count(sum.requests)), el("td", { class: "number" }, count(sum.errors)), el("td", { class: "number minor" }, count(sum.prompt_tokens)), el("td", { class: "number minor" }, count(sum.completion_tokens)), el("td", { class: "number" }, format(sum.cost))));
  return el("div", { class: "grid two" },
    panel("Cost over time", `${format(whole)} in ${days.length} ${plural(days.length, "day")}, by ${name}; days of UTC`, columns({ label: "Cost a day", slots, format }), el("p", { class: "kinds" }, kinds.map(([kind, text]) => el("span", {}, el("span", { class: `kind ${kind}` }), text))), columnsTable("Cost a day", slots, format)),
    panel("Used", `in the same days, by ${name}`, table("Usage", [[WHO.find(([value]) => value === by)[1]], ["Requests", "number"], ["Errors", "number"], ["Prompt", "number minor"], ["Answer", "number minor"], ["Cost", "number"]], lines, "Nothing was used in this time.")));
}

function keysPanel(records, all, spent, currency, acts) {
  const format = (value) => money(value, currency);
  const rows = records.slice(0, MOST).map((record) => {
    const sums = spent.get(record.id) ?? { day: 0, month: 0 }, fixed = record.source === "configuration", gone = record.state === "revoked";
    return el("tr", {}, el("td", { class: "breaks" }, el("strong", {}, record.id), " ", chip(record.state, STATES[record.state]), record.expires_at_s ? el("div", { class: "note" }, `until ${new Date(record.expires_at_s * 1000).toLocaleDateString()}`) : null),
      el("td", { class: "breaks" }, record.tenant || record.id, record.team ? el("div", { class: "note" }, `team ${record.team}`) : null), el("td", { class: "minor breaks" }, record.scopes.join(", ") || "–"),
      el("td", {}, limitWords(record.limits)), el("td", {}, gauge(sums.day, record.limits.budget_day, format, `Today, ${record.id}`)), el("td", {}, gauge(sums.month, record.limits.budget_month, format, `This month, ${record.id}`)),
      el("td", {}, fixed ? el("span", { class: "note" }, "in the configuration") : gone ? null : el("div", { class: "row" }, [["Limits", () => acts.limit("key", record.id, record.limits)], ["Rotate", () => acts.rotate(record)], ["Revoke", () => acts.revoke(record), "danger"]].map(([name, act, kind]) => el("button", { type: "button", class: kind ?? "", "aria-label": `${name}: ${record.id}`, on: { click: act } }, name)))));
  });
  const head = [["Key"], ["Tenant"], ["Scopes", "minor"], ["Limits"], ["Today"], ["This month"], ["Change"]];
  return panel("Keys", `${records.length === all ? `${all} in all` : `${records.length} of ${all}`}${records.length > MOST ? `; the first ${MOST} are shown, find others by name` : ""}`, cards("Keys", head, rows, all ? "No key matches." : "There are no keys: whoever sits at this machine operates the gateway."));
}

function teamsOf(known, keys) {
  const found = new Map(known.map(({ team, limits }) => [team, limits]));
  for (const record of keys) if (record.team && !found.has(record.team)) found.set(record.team, {});
  return [...found].sort(([a], [b]) => a.localeCompare(b));
}

function teamsPanel(teams, spent, currency, acts, kept) {
  const format = (value) => money(value, currency), name = textInput("team-name", { required: true, maxlength: "256" });
  const rows = teams.map(([team, given]) => {
    const limits = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)), sums = spent.get(team) ?? { day: 0, month: 0 };
    return el("tr", {}, el("td", { class: "breaks" }, el("strong", {}, team)), el("td", {}, limitWords(limits)), el("td", {}, gauge(sums.day, limits.budget_day, format, `Today, team ${team}`)), el("td", {}, gauge(sums.month, limits.budget_month, format, `This month, team ${team}`)),
      el("td", {}, kept ? el("button", { type: "button", "aria-label": `Limits: team ${team}`, on: { click: () => acts.limit("team", team, limits) } }, "Limits") : null));
  });
  const form = el("form", { class: "row", on: { submit: (event) => { event.preventDefault(); acts.limit("team", name.value.trim(), {}); } } }, labelled("Limit another team", name), el("button", { type: "submit" }, "Set limits"));
  return panel("Teams", "a team's limits hold for all its keys together", el("div", { class: "stack" }, kept ? form : null, cards("Teams", [["Team"], ["Limits"], ["Today"], ["This month"], ["Change"]], rows, "No key names a team.")));
}

function newKeyPanel(create) {
  const text = (id, name, note, more = {}) => labelled(name, textInput(`new-${id}`, { name: id, maxlength: "256", ...more }), note);
  const form = el("form", { class: "stack", id: "new-key", on: { submit: (event) => { event.preventDefault(); create(form); } } },
    el("div", { class: "fields" }, text("id", "Id", "letters, digits, . _ @ -", { required: true, maxlength: "64" }), text("tenant", "Tenant", "the id itself, if empty"), text("team", "Team", ""), text("scopes", "Scopes", "admin, review, pii …; commas between"), text("expires", "Expires", "never, if empty", { type: "date" })),
    el("details", {}, el("summary", {}, "What it may reach: all, unless named here"), el("div", { class: "fields" }, text("models", "Models", ""), text("tools", "Tools", ""), text("routes", "Routes", "such as /v1/chat/*"), text("rails", "Only under rails", ""))),
    el("fieldset", {}, el("legend", {}, "Limits"), limitFields("new")),
    el("div", { class: "row" }, el("button", { class: "main", type: "submit" }, "Make the key")));
  return panel("New key", "its secret is shown once, and kept nowhere", form);
}
