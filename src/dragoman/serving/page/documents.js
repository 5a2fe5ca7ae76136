/** Documents: sent, waited for, and offered for download when they are done. */

import { readDocumentResult, readDocumentStatus, sendDocument } from "./api.js";
import { explain, showError } from "./notices.js";
import { isSound, takeSound } from "./sounds.js";
import { fileSize, onLanguage, say } from "./texts.js";

const list = document.querySelector("#document-list");
const input = document.querySelector("#file");
const drop = document.querySelector("#drop");
/** Milliseconds between two looks at how far it is: soon at first, then less often. */
const [FIRST_LOOK, LAST_LOOK] = [300, 2000];

/**
 * @param {{languages: () => object, largest: () => number}} options what to translate from and into, and the size in
 *   bytes that the server takes
 */
export function watchDocuments({ languages, largest }) {
  const take = (files) => {
    for (const file of files) {
      if (isSound(file)) takeSound(file);
      else new Entry(file).run(languages(), largest());
    }
  };
  const help = () => {
    document.querySelector("#documents-help").textContent = say("documentsHelp", { size: fileSize(largest()) });
  };
  help();
  onLanguage(help);
  document.querySelector("#choose-file").addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    take(input.files);
    // The same file may be chosen again.
    input.value = "";
  });
  watchDrops(take);
}

/** @param {(files: Iterable<File>) => void} take */
function watchDrops(take) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.hidden = true;
  });
  addEventListener("drop", (event) => {
    drop.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files);
  });
}

/** One document in the list. */
class Entry {
  /** @param {File} file */
  constructor(file) {
    this.file = file;
    this.controller = new AbortController();
    this.line = document.createElement("li");
    this.name = document.createElement("span");
    this.name.className = "name";
    this.name.textContent = file.name;
    this.bar = document.createElement("progress");
    this.state = document.createElement("span");
    this.state.setAttribute("role", "status");
    this.link = document.createElement("a");
    this.link.hidden = true;
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.className = "quiet";
    this.button.addEventListener("click", () => this.remove());
    this.line.append(this.name, this.bar, this.state, this.link, this.button);
    list.append(this.line);
    this.tell(() => say("documentSending"));
    onLanguage(() => this.tell(this.words));
  }

  /** @param {object} languages @param {number} largest */
  async run(languages, largest) {
    if (this.file.size > largest) {
      this.bar.hidden = true;
      return this.tell(() => say("documentTooLarge", { size: fileSize(largest) }));
    }
    const { signal } = this.controller;
    try {
      const ticket = await sendDocument(this.file, languages, signal);
      const status = await this.wait(ticket, signal);
      this.bar.hidden = true;
      if (status.status === "failed") return this.tell(() => failure(status.error));
      this.offer(await readDocumentResult(ticket, signal), status.name);
    } catch (error) {
      if (signal.aborted) return undefined;
      this.bar.hidden = true;
      this.tell(() => explain(error));
      if (error.status === 401 || error.code === "wrong_key") showError(error, () => this.again(languages, largest));
    }
    return undefined;
  }

  /** Once more, with a key. */
  again(languages, largest) {
    this.bar.hidden = false;
    this.tell(() => say("documentSending"));
    this.run(languages, largest);
  }

  /** @returns {Promise<object>} its status when it is done or has failed */
  async wait(ticket, signal) {
    for (let pause = FIRST_LOOK; ; pause = Math.min(LAST_LOOK, pause * 1.5)) {
      const status = await readDocumentStatus(ticket, signal);
      if (status.status === "done" || status.status === "failed") return status;
      const { done, total } = status;
      if (status.status === "waiting" || !total) {
        this.tell(() => say("documentWaiting"));
      } else {
        this.bar.max = total;
        this.bar.value = done;
        this.tell(() => say("documentTranslating", { done, total }));
      }
      await new Promise((go) => setTimeout(go, pause));
      signal.throwIfAborted();
    }
  }

  /** @param {Blob} result @param {string} name */
  offer(result, name) {
    this.link.href = URL.createObjectURL(result);
    this.link.download = name;
    this.link.hidden = false;
    this.tell(() => say("documentDone"));
  }

  /** @param {() => string} words how it is with it, said again when the language changes */
  tell(words) {
    this.words = words;
    this.state.textContent = words();
    this.bar.setAttribute("aria-label", say("documentProgress", { name: this.file.name }));
    this.link.textContent = say("download", { name: this.link.download });
    this.button.textContent = say("remove");
    this.button.setAttribute("aria-label", say("removeNamed", { name: this.file.name }));
  }

  remove() {
    this.controller.abort();
    if (this.link.href) URL.revokeObjectURL(this.link.href);
    this.line.remove();
    document.querySelector("#choose-file").focus();
  }
}

/** @param {string | {message?: string} | null} error of a document that failed */
function failure(error) {
  const message = typeof error === "string" ? error : error?.message;
  return message ? say("error", { message }) : say("errorInside");
}
