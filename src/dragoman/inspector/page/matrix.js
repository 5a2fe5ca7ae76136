/* A matrix: few numbers stand as numbers in a table, many as tiles on a canvas. Both are walked with the arrows. */

import { inkOn, mix, palette } from "./colors.js";
import { h, num } from "./dom.js";

const SHADES = 256;
const CROWDED = 40_000;
const HATCH = [138, 143, 149];
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function largest(matrix) {
  if (matrix.scale === "share") return 1;
  let most = 0;
  for (let i = 0; i < matrix.rows.length; i++) {
    for (let j = 0; j < matrix.cols.length; j++) most = Math.max(most, Math.abs(matrix.value(i, j)) || 0);
  }
  return most || 1;
}

/** As much of a number as a cell has room for. */
function brief(value, digits) {
  return value !== 0 && Math.abs(value) < 10 ** -digits / 2 ? "≈0" : num(value, digits);
}

function walk(event, matrix, row, col) {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  const next = [row + move[0], col + move[1]];
  const inside = next[0] >= 0 && next[1] >= 0 && next[0] < matrix.rows.length && next[1] < matrix.cols.length;
  if (inside) matrix.choose(...next);
}

/** matrix: {name, key, rows, cols, value(i, j), scale: "signed" | "share", hidden(i, j)?, at: [row, col], choose, corner?} */
export function drawMatrix(matrix) {
  const few = matrix.cols.length <= 16 && matrix.rows.length * matrix.cols.length <= 400;
  return few && !matrix.tiles ? table(matrix) : tiles(matrix);
}

function table(matrix) {
  const colors = palette();
  const most = largest(matrix);
  const [row, col] = matrix.at;
  const wanted = row >= 0 && row < matrix.rows.length && col >= 0 && col < matrix.cols.length;
  const cells = matrix.rows.map((label, i) => h("tr", { role: "row" },
    h("th", { scope: "row", class: i === row ? "chosen" : "" }, label),
    matrix.cols.map((name, j) => {
      const why = matrix.hidden?.(i, j);
      const value = matrix.value(i, j);
      const here = wanted ? i === row && j === col : i === 0 && j === 0;
      const cell = h("td", {
        role: "gridcell", tabindex: here ? 0 : -1, key: `${matrix.key}:${here ? "" : `${i}:${j}`}`,
        class: [why ? "hatched" : "", wanted && here ? "chosen" : ""].join(" ").trim(),
        "aria-selected": String(wanted && here), title: why ?? null,
        "aria-label": `${label}, ${name}: ${num(value)}${why ? `, ${why}` : ""}`,
        onclick: () => matrix.choose(i, j), onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); matrix.choose(i, j); }
          walk(event, matrix, i, j);
        },
      }, brief(value, matrix.digits ?? 2));
      if (!why) {
        const color = mix(colors, value / most, matrix.scale);
        cell.style.backgroundColor = `rgb(${color})`;
        cell.style.color = inkOn(color);
      }
      return cell;
    })));
  const head = h("tr", { role: "row" }, h("th", { scope: "col", class: "corner" }, matrix.corner ?? ""),
    matrix.cols.map((label, j) => h("th", { scope: "col", class: j === col ? "chosen" : "" }, label)));
  return h("div", { class: "scroll" }, h("table", { role: "grid", class: "numbers", "aria-label": matrix.name }, head, cells));
}

function tiles(matrix) {
  const rows = matrix.rows.length;
  const cols = matrix.cols.length;
  const size = Math.max(3, Math.min(18, Math.floor((matrix.width ?? 560) / cols)));
  const high = rows > 64 ? size : Math.max(size, 15);
  const canvas = h("canvas", { width: cols * size, height: rows * high });
  paint(canvas, matrix, size, high);
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const tell = (i, j) => {
    const why = matrix.hidden?.(i, j);
    readout.textContent = `${matrix.rows[i]}, ${matrix.cols[j]}: ${num(matrix.value(i, j), 5)}${why ? ` (${why})` : ""}`;
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top) / high), Math.floor((event.clientX - box.left) / size)];
  };
  const inside = ([i, j]) => i >= 0 && j >= 0 && i < rows && j < cols;
  canvas.addEventListener("pointermove", (event) => inside(place(event)) && tell(...place(event)));
  canvas.addEventListener("click", (event) => inside(place(event)) && matrix.choose(...place(event)));
  const [row, col] = matrix.at;
  if (inside([row, col])) tell(row, col);
  const labels = rows <= 64 ? h("div", { class: "labels" }, matrix.rows.map((label, i) => {
    const line = h("div", { class: i === row ? "chosen" : "", title: label }, label);
    line.style.height = `${high}px`;
    line.style.lineHeight = `${high}px`;
    return line;
  })) : null;
  const frame = h("div", {
    class: "tiles", role: "group", tabindex: 0, key: matrix.key, "aria-label": `${matrix.name} [${rows}, ${cols}]`,
    onkeydown: (event) => walk(event, matrix, Math.max(0, row), Math.max(0, col)),
  }, labels, h("div", { class: "scroll" }, canvas));
  return h("div", {}, frame, readout);
}

function paint(canvas, matrix, size, high) {
  const rows = matrix.rows.length;
  const cols = matrix.cols.length;
  const colors = palette();
  const most = largest(matrix);
  const image = new ImageData(cols, rows);
  // A colour for each 256th of the scale; so many cells that a line in each would take long are grey by turns instead.
  const scale = Array.from({ length: 2 * SHADES + 1 }, (_, at) => mix(colors, at / SHADES - 1, matrix.scale));
  const crowded = rows * cols > CROWDED;
  for (let i = 0, at = 0; i < rows; i++) {
    for (let j = 0; j < cols; j++, at += 4) {
      const hides = matrix.hidden?.(i, j);
      const share = hides ? 0 : Math.max(-1, Math.min(1, matrix.value(i, j) / most || 0));
      const color = !hides ? scale[Math.round(share * SHADES) + SHADES] : crowded && (i + j) % 2 ? HATCH : colors.paper;
      image.data[at] = color[0];
      image.data[at + 1] = color[1];
      image.data[at + 2] = color[2];
      image.data[at + 3] = 255;
    }
  }
  const small = h("canvas", { width: cols, height: rows });
  small.getContext("2d").putImageData(image, 0, 0);
  const brush = canvas.getContext("2d");
  brush.imageSmoothingEnabled = false;
  brush.drawImage(small, 0, 0, cols * size, rows * high);
  brush.strokeStyle = "#8a8f95";
  if (matrix.hidden && !crowded) {
    brush.beginPath();
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < cols; j++) {
        if (!matrix.hidden(i, j)) continue;
        brush.moveTo(j * size, (i + 1) * high);
        brush.lineTo((j + 1) * size, i * high);
      }
    }
    brush.stroke();
  }
  const [row, col] = matrix.at;
  if (row < 0 || row >= rows) return;
  brush.strokeStyle = `rgb(${colors.paper.map((v) => 255 - v)})`;
  brush.lineWidth = 2;
  if (col >= 0 && col < cols) brush.strokeRect(col * size + 1, row * high + 1, Math.max(1, size - 2), high - 2);
}
