/** The words of the page, in both languages. */

const ENGLISH = {
  title: "{source} to {target}",
  translation: "Translation",
  sourceTitle: "Text to translate",
  placeholder: "Type or paste a text",
  sourceHelp: "One sentence a line. Ctrl and Enter translates.",
  translate: "Translate",
  stop: "Stop",
  search: "Search",
  beam: "beam search, {count} hypotheses",
  greedy: "greedy search, the fastest",
  copy: "Copy",
  copied: "Copied.",
  notCopied: "The browser did not allow copying. The translation is selected: copy it with Ctrl and C.",
  dark: "Dark",
  other: "中文",
  empty: "The translation appears here.",
  loading: "Loading the model: {done} of {total} MB",
  starting: "Starting the model …",
  ready: "Ready.",
  working: "Line {at} of {count}",
  done: "{count, plural} translated in {seconds} s.",
  line: "1 line",
  lines: "{count} lines",
  nothing: "",
  stopped: "Stopped.",
  cut: "Too long for the model, and read only up to its limit: line {lines}.",
  runtime: "The runtime onnxruntime-web is not here yet. In the folder of this page, run the command below, then reload the page.",
  file: "This file of the model could not be loaded: {what}",
  session: "The model could not be started: {what}",
  failed: "It could not be translated: {what}",
  privacy: "The model runs in this browser. No text leaves this device.",
};

const CHINESE = {
  title: "{source}译成{target}",
  translation: "译文",
  sourceTitle: "要翻译的文本",
  placeholder: "输入或粘贴文本",
  sourceHelp: "每行一句。按 Ctrl 加 Enter 翻译。",
  translate: "翻译",
  stop: "停止",
  search: "搜索",
  beam: "束搜索，{count} 个假设",
  greedy: "贪心搜索，最快",
  copy: "复制",
  copied: "已复制。",
  notCopied: "浏览器不允许复制。译文已选中：请按 Ctrl 加 C 复制。",
  dark: "深色",
  other: "English",
  empty: "译文会出现在这里。",
  loading: "正在载入模型：{done} / {total} MB",
  starting: "正在启动模型……",
  ready: "可以翻译了。",
  working: "第 {at} 行，共 {count} 行",
  done: "用 {seconds} 秒翻译了{count, plural}。",
  line: " 1 行",
  lines: " {count} 行",
  nothing: "",
  stopped: "已停止。",
  cut: "超过模型的长度上限、只读了前一部分的行：第 {lines} 行。",
  runtime: "这里还没有运行库 onnxruntime-web。请在本网页所在的文件夹里运行下面的命令，然后重新载入网页。",
  file: "模型的这个文件无法载入：{what}",
  session: "模型无法启动：{what}",
  failed: "无法翻译：{what}",
  privacy: "模型在这个浏览器里运行，文本不会离开这台设备。",
};

/** @param {string} name in localStorage @returns {string | null} what was kept there; null where storage is forbidden */
export function recall(name) {
  try {
    return localStorage.getItem(`dragoman.${name}`);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value to be kept; lost where storage is forbidden */
export function remember(name, value) {
  try {
    localStorage.setItem(`dragoman.${name}`, value);
  } catch {
    // Nothing is lost but the memory of it.
  }
}

let language = recall("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const current = () => language;

/** @param {"en" | "zh"} chosen */
export function choose(chosen) {
  language = chosen;
  remember("language", chosen);
}

/** @param {string} key @param {Record<string, string | number>} [values] @returns {string} */
export function say(key, values = {}) {
  const words = language === "zh" ? CHINESE : ENGLISH;
  return words[key].replace(/\{(\w+)(, plural)?\}/gu, (_, name, plural) =>
    plural ? say(values[name] === 1 ? "line" : "lines", values) : String(values[name]),
  );
}
