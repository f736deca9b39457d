// Follow a structured stream value by value; copy this file into your client.
//
//   const chunks = await client.chat.completions.create({..., stream: true, sluicegate: { partial: true } } as any)
//   for await (const part of partialValues<Person>(chunks)) show(part.value) // what is there will not change

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

// An array may be shorter, an object may lack properties; what is there is whole.
export type Partially<T> = T extends (infer U)[]
  ? Partially<U>[]
  : T extends object
    ? { [K in keyof T]?: Partially<T[K]> }
    : T;

export interface Part<T> {
  index: number;
  call: number | null; // the number of a tool's call, null for the answer itself
  complete: string[]; // pointers that this event added
  value: Partially<T>;
}

interface Said {
  pointer: string;
  value: Json;
  complete: boolean;
}

export async function* partialValues<T = Json>(chunks: AsyncIterable<unknown>): AsyncGenerator<Part<T>> {
  const documents = new Map<string, Json>();
  for await (const chunk of chunks) {
    const event = (chunk as any).sluicegate?.partial as { index: number; call?: number; values: Said[] } | undefined;
    if (!event) continue;
    const call = event.call ?? null;
    const place = `${event.index} ${call}`;
    let document = documents.get(place);
    for (const said of event.values) document = put(document, said.pointer, said.value);
    documents.set(place, document as Json);
    const complete = event.values.filter((said) => said.complete).map((said) => said.pointer);
    yield { index: event.index, call, complete, value: structuredClone(document) as Partially<T> };
  }
}

// Set a value where an RFC 6901 pointer leads, and return the document. Arrays grow by one item at a time.
export function put(document: Json | undefined, pointer: string, value: Json): Json {
  if (pointer === "") return value;
  const slash = pointer.indexOf("/", 1);
  const step = pointer.slice(1, slash < 0 ? undefined : slash);
  const rest = slash < 0 ? "" : pointer.slice(slash);
  const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
  if (Array.isArray(document)) {
    document[Number(key)] = put(document[Number(key)], rest, value);
    return document;
  }
  const found = document !== null && typeof document === "object" ? document : {};
  const inner = put(Object.hasOwn(found, key) ? found[key] : undefined, rest, value);
  Object.defineProperty(found, key, { value: inner, writable: true, enumerable: true, configurable: true });
  return found;
}
