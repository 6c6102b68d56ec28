// Figures as text, as the panel in the terminal writes them; and elements whose text is only text.

export const UNKNOWN = "–";
const THOUSANDS = new Intl.NumberFormat("en-US");

export function count(value) {
  return value == null ? UNKNOWN : THOUSANDS.format(Math.round(value));
}

export function figure(value) {
  if (value == null || !Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.001 || size >= 1e9) return value.toExponential(1);
  const digits = size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return new Intl.NumberFormat("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(value);
}

export function rate(value) {
  if (value == null) return UNKNOWN;
  return value >= 100 || value === 0 ? count(value) : value.toFixed(1);
}

export function compact(value) {
  if (value == null) return UNKNOWN;
  for (const [unit, mark] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= unit) return `${+(value / unit).toFixed(1)}${mark}`;
  return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : `${+(+value).toPrecision(3)}`;
}

export function size(value) {
  if (value == null) return UNKNOWN;
  for (const [unit, mark] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (value >= unit) return `${(value / unit).toFixed(value >= 10 * unit ? 0 : 1)} ${mark}`;
  return `${Math.round(value)} B`;
}

export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return UNKNOWN;
  const whole = Math.floor(seconds);
  for (const [unit, name, lower, below] of [
    [86400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ])
    if (whole >= unit)
      return `${Math.floor(whole / unit)} ${name} ${Math.floor((whole % unit) / lower)} ${below}`;
  return `${whole} s`;
}

export function percent(share) {
  return share == null ? UNKNOWN : `${Math.round(100 * share)} %`;
}

export function clock(seconds) {
  return seconds ? new Date(1000 * seconds).toLocaleString() : UNKNOWN;
}

// An element with a class and a text. Texts of other machines are never markup: no other way here.
export function element(tag, name = "", text = null, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text != null) made.textContent = text;
  made.append(...children);
  return made;
}

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
