// The admin key stays in this tab (sessionStorage) and travels as a bearer token, never in a URL or a cookie.
const KEY = "sluicegate.admin";

export class Failure extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the gateway answered ${status}`);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

function headers(extra = {}) {
  const found = key.get();
  return found ? { authorization: `Bearer ${found}`, ...extra } : extra;
}

// `raw` is JSON as text, sent as it is.
function sending(method, body, raw, signal) {
  const text = raw ?? (body && JSON.stringify(body));
  return { method, signal, headers: headers(text ? { "content-type": "application/json" } : {}), body: text };
}

export async function ask(path, { method = "GET", body, raw, signal } = {}) {
  const sent = sending(method, body, raw, signal);
  const answer = await fetch(path, sent);
  if (!answer.ok) throw new Failure(answer.status, await answer.json().catch(() => null));
  return answer.json();
}

// Like EventSource, which cannot send a key: yields the data of each event.
export async function* events(path, { method = "GET", body, raw, signal } = {}) {
  const sent = sending(method, body, raw, signal);
  const answer = await fetch(path, sent);
  if (!answer.ok) throw new Failure(answer.status, await answer.json().catch(() => null));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) yield data;
    }
  }
}
