// Usage of the books as sums: by owner, by day, and the limits that it is measured against.
import { ask } from "./api.js";

export const dayOf = (at = new Date()) => at.toISOString().slice(0, 10);
export const daysAgo = (days) => dayOf(new Date(Date.now() - days * 86400e3));

export function daysSince(first) {
  const found = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.now(); at += 86400e3) found.push(dayOf(new Date(at)));
  return found;
}

export async function usageRows(since, by, signal) {
  return (await ask(`/admin/usage?since=${since}&by=${encodeURIComponent(by.join(","))}`, { signal })).data;
}

export function money(value, currency = "") {
  const digits = Math.abs(value) < 0.01 ? 6 : Math.abs(value) < 1 ? 4 : 2;
  return `${value.toFixed(digits).replace(/(\.\d\d\d*?)0+$/, "$1")}${currency ? ` ${currency}` : ""}`;
}

// What each name spent today and this month, in UTC as the books count: { name: { day, month } }.
export function spentBy(rows, field) {
  const today = dayOf(), month = today.slice(0, 7), found = new Map();
  for (const row of rows) {
    if (!row.day.startsWith(month)) continue;
    const sums = found.get(row[field]) ?? { day: 0, month: 0 };
    sums.month += row.cost;
    if (row.day === today) sums.day += row.cost;
    found.set(row[field], sums);
  }
  return found;
}

// Stacks for a chart: the names that cost most get a colour each, all others share one.
export function stacked(rows, days, field, value, most = 5) {
  const sums = new Map();
  for (const row of rows) sums.set(row[field], (sums.get(row[field]) ?? 0) + row[value]);
  const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)), leaders = names.slice(0, most);
  const rest = names.length > most ? [[`c${most}`, `${names.length - most} others`]] : [];
  const kinds = [...leaders.map((name, at) => [`c${at}`, name || "none"]), ...rest];
  const slots = days.map((day) => {
    const parts = new Map();
    for (const row of rows.filter((found) => found.day === day)) {
      const at = leaders.indexOf(row[field]), [kind, name] = at < 0 ? rest[0] : kinds[at];
      parts.set(kind, [kind, name, (parts.get(kind)?.[2] ?? 0) + row[value]]);
    }
    return { name: day, parts: [...parts.values()].sort((a, b) => a[0].localeCompare(b[0])) };
  });
  return { slots, kinds, whole: [...sums.values()].reduce((all, sum) => all + sum, 0) };
}
