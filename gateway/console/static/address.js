// `#/requests/DETAIL?model=x` names a page, what it shows, and its filters: every view is an address.
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/");
  return { name: name || "overview", detail: rest.map(decoded).join("/"), params: new URLSearchParams(query ?? "") };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

export function address(name, params = {}, detail = "") {
  const kept = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept).toString();
  return `#/${name}${detail ? `/${encodeURIComponent(detail)}` : ""}${query ? `?${query}` : ""}`;
}
