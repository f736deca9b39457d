// Text whose contrast to what lies behind it is below 4.5 to 1: [class, text, ratio].
(() => {
  const luminance = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const parsed = (text) => { const found = text.match(/[\d.]+/g).map(Number); return found.length > 3 && found[3] === 0 ? null : found.slice(0, 3) };
  const behind = (node) => { for (let at = node; at; at = at.parentElement) { const c = parsed(getComputedStyle(at).backgroundColor); if (c) return c } return [255, 255, 255] };
  const poor = [];
  for (const node of document.querySelectorAll('#main *, header *')) {
    if (![...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()) || node.closest('svg, [disabled], .hidden')) continue;
    const style = getComputedStyle(node);
    if (style.visibility === 'hidden' || !node.getClientRects().length) continue;
    const a = luminance(parsed(style.color)), b = luminance(behind(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([node.className, node.textContent.slice(0, 30), ratio.toFixed(2)]);
  }
  return poor;
})()
