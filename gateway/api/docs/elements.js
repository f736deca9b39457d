// Elements are built, never parsed.
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A text as the document has it, where `names` stand between backticks.
export function words(text) {
  return text.split("`").map((part, place, all) => {
    if (place % 2 === 0) return part;
    return place === all.length - 1 ? "`" + part : el("code", {}, part);
  });
}
