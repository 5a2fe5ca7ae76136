/* Colours of numbers: blue is positive, orange negative, which the colour-blind tell apart too. */

const LIGHT = { paper: [255, 255, 255], plus: [31, 95, 175], minus: [201, 96, 20], share: [20, 92, 120] };
const DARK = { paper: [31, 34, 38], plus: [110, 170, 245], minus: [240, 150, 80], share: [110, 200, 225] };

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function palette() { return isDark() ? DARK : LIGHT; }

/** The colour of a part in −1 … 1 of the largest number. */
export function mix(colors, part, scale) {
  const hue = scale === "share" ? colors.share : part < 0 ? colors.minus : colors.plus;
  const much = Math.min(1, Math.abs(part) || 0);
  return colors.paper.map((low, at) => Math.round(low + (hue[at] - low) * much));
}

function light(rgb) {
  const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Letters that are read on a colour: of black and white one always is. */
export const inkOn = (rgb) => (light(rgb) > 0.179 ? "#000000" : "#ffffff");
