/** The text to translate, and the marks in it: a layer with the same text and the same metrics behind the textarea. */

const textarea = document.querySelector("#source");
const backdrop = document.querySelector("#backdrop");

/** @returns {string} */
export function sourceText() {
  // Half a surrogate pair is no character: JSON could not carry it.
  return textarea.value.toWellFormed();
}

/** @param {string} text */
export function setSourceText(text) {
  textarea.value = text;
  markSource([]);
}

/** @param {string} language for lang=; "" where nobody knows */
export function setSourceLanguage(language) {
  textarea.lang = backdrop.lang = language;
}

/** @param {[number, number][]} spans of the text, in UTF-16 units */
export function markSource(spans) {
  const text = textarea.value;
  const nodes = [];
  let done = 0;
  for (const [start, end] of [...spans].sort(([a], [b]) => a - b)) {
    if (end <= done) continue;
    const from = Math.max(start, done);
    const mark = document.createElement("mark");
    mark.textContent = text.slice(from, end);
    nodes.push(text.slice(done, from), mark);
    done = end;
  }
  // A last empty line has no height without something in it.
  backdrop.replaceChildren(...nodes, `${text.slice(done)}\u200b`);
}

/**
 * @param {{onEdit: () => void, onEnter: () => void}} callbacks what to do after each change, and at Ctrl+Enter
 */
export function watchSource({ onEdit, onEnter }) {
  textarea.addEventListener("input", (event) => {
    markSource([]);
    // What an input method has not settled yet is no text of the user's.
    if (!event.isComposing) onEdit();
  });
  textarea.addEventListener("compositionend", onEdit);
  textarea.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    event.preventDefault();
    onEnter();
  });
}

/** Put the caret where one goes on typing. */
export function focusSource() {
  textarea.focus();
}
