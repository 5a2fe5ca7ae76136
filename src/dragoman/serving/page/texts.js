/** The words of the interface, and the language they are said in. */

import { recall, remember } from "./storage.js";

const ENGLISH = {
  skip: "To the text field",
  darkTheme: "Dark",
  otherLanguage: "中文",
  languages: "Languages",
  sourceLanguage: "Translate from",
  targetLanguage: "Translate to",
  searchLanguage: "Search for a language",
  noLanguage: "There is no such language here.",
  swap: "Swap the languages",
  model: "Model",
  detect: "Detect language",
  detected: "{language} (detected)",
  byName: "Models without languages",
  asTheModel: "as the model has it",
  unknownLanguage: "unknown language",
  sourceTitle: "Text to translate",
  outputTitle: "Translation",
  placeholder: "Type or paste a text",
  sourceHelp: "The translation appears as you type. Ctrl and Enter translate at once.",
  sourceTitleSpeech: "What was said",
  sourceHelpSpeech: "What the model hears is written here.",
  placeholderSpeech: "Press Record and speak, or choose a file of sound",
  record: "Record",
  stopRecording: "Stop",
  level: "Loudness",
  recorded: "Time recorded",
  recordingBegun: "Recording. Press the button again to stop.",
  chooseSound: "Sound file",
  listener: "Model that listens",
  micAsking: "The browser asks whether the microphone may be used …",
  writing: "Being written down …",
  notTranslated: "This is {language}, from which nothing is translated here.",
  nothingSaid: "The model heard nobody speak.",
  soundBusy: "One sound after the other: the one before is not written down yet.",
  soundTooLarge: "{name} is larger than {size}, which is the most that this server takes.",
  micInsecure: "The browser lends its microphone only to pages that come over https, or from this machine.",
  micRefused: "The browser was not allowed to use the microphone. Allow it in the settings of this page, and press Record again.",
  micMissing: "No microphone was found.",
  micBusy: "The microphone cannot be used: perhaps another program has it.",
  micFailed: "This browser could not record.",
  outputHelp: "Arrow keys go from word to word. Enter shows other words for this place.",
  emptyStart: "The translation appears here as you type.",
  emptyWords:
    "Click a word of it to see what else could stand there; point at a word to see where in your text it comes from.",
  emptySaid: "Or press Record and say it; a file of sound can be dropped on the page.",
  count: "{count} / {limit}",
  countLong: "{count} characters: above {limit} a text is sent in parts",
  clear: "Clear",
  copy: "Copy",
  copied: "Copied.",
  notCopied: "The browser did not allow copying. The translation is selected: copy it with Ctrl and C.",
  undo: "Undo choice",
  part: "Part {done} of {total}",
  uncertain: "Mark uncertain words",
  grade1: "below 80%",
  grade2: "below 50%",
  grade3: "below 25%",
  legend: "The probability that the model gave this word. It says how sure the model was, not whether the word is right.",
  detail: "“{word}”: probability {percent}",
  detailFrom: "“{word}”: probability {percent}, from “{source}”",
  detailOnlyFrom: "“{word}”: from “{source}”",
  menuTitle: "Instead of “{word}”",
  menuWait: "Looking for alternatives …",
  menuNone: "The model has no other word here.",
  menuEnd: "(end of the sentence)",
  taken: "The sentence now reads: {text}",
  documentsTitle: "Translate a document",
  chooseFile: "Choose a file",
  documentsHelp: "Plain text, {size} at most. Or drop it anywhere on this page.",
  dropHere: "Drop the file to translate it",
  documentSending: "is being sent",
  documentWaiting: "waits for its turn",
  documentTranslating: "{done} of {total} lines",
  documentDone: "is ready",
  documentTooLarge: "is larger than {size}",
  documentProgress: "Progress of {name}",
  download: "Download {name}",
  remove: "Remove",
  removeNamed: "Remove {name}",
  modelLine: "Translated by {models}",
  modelLineSpeech: "Written down by {models}",
  modelsReady: "Ready: {models}",
  more: "More",
  docs: "Interface for programs",
  openapi: "OpenAPI",
  pivot: "Translated by way of {language}: from {source} first into it, and then into {target}.",
  truncated: "A sentence was longer than the model can read. The end of it is not translated.",
  unknown: "The model does not know some of the characters or words ({count}). What it wrote for them is a guess.",
  truncatedSpeech: "A part was longer than the model can hear at once. The end of it is not written.",
  unfinishedSpeech: "A part came to the limit of its length before it was finished.",
  unfinished: "A sentence came to the limit of its length before it was finished.",
  keyLabel: "Key",
  keySend: "Use this key",
  retry: "Try again",
  error: "The server says: {message}",
  errorPlain: "The server could not do this (HTTP {status}).",
  errorOffline: "The server cannot be reached.",
  errorKey: "This server asks for a key.",
  errorWrongKey: "This server does not accept the key.",
  errorUsedUp: "This key has used up what it may ask for at present.",
  errorNoPair: "This cannot be translated here: no model goes from the one language to the other.",
  errorFormat: "Files of this kind are not read here. Plain text is: .txt, .text, .md.",
  errorNotUtf8: "The file is not text in UTF-8.",
  errorSound: "This file is damaged, or no sound that can be read here. WAV, FLAC, OGG and MP3 are.",
  errorSoundTooLong: "The recording is longer than this server takes.",
  errorBusy: "Too much is being asked of the server at the moment.",
  errorWait: "The next try is in {seconds} s.",
  errorTime: "The translation took too long and was given up.",
  errorTooLong: "The text is too long for this server.",
  errorInside: "Something went wrong inside the server.",
  errorNoModels: "The server has no model. Start it with the directory of a trained model.",
};

/** @type {typeof ENGLISH} */
const CHINESE = {
  skip: "跳到文本框",
  darkTheme: "深色",
  otherLanguage: "English",
  languages: "语言",
  sourceLanguage: "源语言",
  targetLanguage: "目标语言",
  searchLanguage: "搜索语言",
  noLanguage: "此处没有这种语言。",
  swap: "交换语言",
  model: "模型",
  detect: "检测语言",
  detected: "{language}（检测到）",
  byName: "未注明语言的模型",
  asTheModel: "由模型决定",
  unknownLanguage: "未知语言",
  sourceTitle: "原文",
  outputTitle: "译文",
  placeholder: "输入或粘贴文本",
  sourceHelp: "输入时即时翻译。按 Ctrl 和 Enter 键立即翻译。",
  sourceTitleSpeech: "说话内容",
  sourceHelpSpeech: "模型听到的话会写在这里。",
  placeholderSpeech: "按“录音”后说话，或选择声音文件",
  record: "录音",
  stopRecording: "停止",
  level: "音量",
  recorded: "已录时长",
  recordingBegun: "正在录音。再按一次按钮即停止。",
  chooseSound: "声音文件",
  listener: "听写模型",
  micAsking: "浏览器正在询问是否允许使用麦克风……",
  writing: "正在听写……",
  notTranslated: "这是{language}，此处没有模型翻译它。",
  nothingSaid: "模型没有听到有人说话。",
  soundBusy: "请逐个进行：前一段声音还没有听写完。",
  soundTooLarge: "{name} 超过了此服务器的上限 {size}。",
  micInsecure: "浏览器只允许通过 https 或来自本机的页面使用麦克风。",
  micRefused: "浏览器未获准使用麦克风。请在本页的设置中允许，然后再按“录音”。",
  micMissing: "没有找到麦克风。",
  micBusy: "麦克风无法使用：可能正被其他程序占用。",
  micFailed: "此浏览器无法录音。",
  outputHelp: "用方向键在词之间移动，按 Enter 键查看此处的其他译法。",
  emptyStart: "输入文本后，译文会显示在这里。",
  emptyWords: "点击译文中的词，可以查看此处的其他译法；指向一个词，可以看到它来自原文的哪里。",
  emptySaid: "也可以按“录音”后说出来，或把声音文件拖放到页面上。",
  count: "{count} / {limit}",
  countLong: "{count} 个字符：超过 {limit} 个字符的文本将分段发送",
  clear: "清空",
  copy: "复制",
  copied: "已复制。",
  notCopied: "浏览器不允许复制。译文已选中，请按 Ctrl 和 C 键复制。",
  undo: "撤销选择",
  part: "第 {done} 部分，共 {total} 部分",
  uncertain: "标出不确定的词",
  grade1: "低于 80%",
  grade2: "低于 50%",
  grade3: "低于 25%",
  legend: "这是模型给出这个词的概率，说明模型有多大把握，并不说明译得对不对。",
  detail: "“{word}”：概率 {percent}",
  detailFrom: "“{word}”：概率 {percent}，来自“{source}”",
  detailOnlyFrom: "“{word}”：来自“{source}”",
  menuTitle: "替换“{word}”",
  menuWait: "正在查找其他译法……",
  menuNone: "模型在此处没有其他译法。",
  menuEnd: "（句子结束）",
  taken: "这句话现在是：{text}",
  documentsTitle: "翻译文档",
  chooseFile: "选择文件",
  documentsHelp: "纯文本，最大 {size}。也可以把文件拖放到本页任意位置。",
  dropHere: "松开鼠标，翻译此文件",
  documentSending: "正在上传",
  documentWaiting: "正在排队",
  documentTranslating: "已完成 {done} 行，共 {total} 行",
  documentDone: "已完成",
  documentTooLarge: "超过 {size}",
  documentProgress: "{name} 的进度",
  download: "下载 {name}",
  remove: "移除",
  removeNamed: "移除 {name}",
  modelLine: "翻译模型：{models}",
  modelLineSpeech: "听写模型：{models}",
  modelsReady: "可用模型：{models}",
  more: "更多",
  docs: "编程接口",
  openapi: "OpenAPI",
  pivot: "经由{language}翻译：先从{source}译成{language}，再译成{target}。",
  truncated: "有一句话超出了模型能读的长度，句尾没有翻译。",
  unknown: "原文中有模型不认识的字或词（{count} 处），相应的译文只是猜测。",
  truncatedSpeech: "有一段话超出了模型一次能听的长度，结尾没有写下。",
  unfinishedSpeech: "有一段话达到了长度上限，没有写完。",
  unfinished: "有一句译文达到了长度上限，没有译完。",
  keyLabel: "密钥",
  keySend: "使用此密钥",
  retry: "重试",
  error: "服务器提示：{message}",
  errorPlain: "服务器无法完成此操作（HTTP {status}）。",
  errorOffline: "无法连接服务器。",
  errorKey: "此服务器需要密钥。",
  errorWrongKey: "此服务器不接受该密钥。",
  errorUsedUp: "此密钥目前的用量已达上限。",
  errorNoPair: "此处无法翻译：没有模型支持这一语言方向。",
  errorFormat: "此处不支持这种文件。支持纯文本：.txt、.text、.md。",
  errorNotUtf8: "该文件不是 UTF-8 编码的文本。",
  errorSound: "该文件已损坏，或不是此处能读的声音。支持 WAV、FLAC、OGG 和 MP3。",
  errorSoundTooLong: "录音超出了此服务器的长度限制。",
  errorBusy: "服务器当前繁忙。",
  errorWait: "{seconds} 秒后重试。",
  errorTime: "翻译用时过长，已放弃。",
  errorTooLong: "文本超出了此服务器的长度限制。",
  errorInside: "服务器内部出错。",
  errorNoModels: "服务器上没有模型。启动时请给出训练好的模型所在的目录。",
};

export const TEXTS = { en: ENGLISH, zh: CHINESE };
/** As what the page calls itself to browsers and screen readers. */
const TAGS = { en: "en", zh: "zh-Hans" };

let language = "en";
/** @type {(() => void)[]} */
const listeners = [];

/** @returns {string} tag of the interface's language, for Intl and lang= */
export function languageTag() {
  return TAGS[language];
}

/** @param {() => void} listener called when the language has changed, and told texts are to be told again */
export function onLanguage(listener) {
  listeners.push(listener);
}

/** Begin in the language that was chosen once, or in the browser's. */
export function beginLanguage() {
  const preferred = navigator.languages?.[0] ?? navigator.language ?? "en";
  const chosen = recall("language");
  language = chosen in TEXTS ? chosen : preferred.toLowerCase().startsWith("zh") ? "zh" : "en";
  sayAll();
}

/** Change to the other language and remember it. */
export function toggleLanguage() {
  language = language === "en" ? "zh" : "en";
  remember("language", language);
  sayAll();
  for (const listener of listeners) listener();
}

/**
 * @param {keyof typeof ENGLISH} key
 * @param {Record<string, string | number>} [values] for the {names} in the text
 * @returns {string}
 */
export function say(key, values = {}) {
  return TEXTS[language][key].replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? value.toLocaleString(languageTag()) : value;
  });
}

/** Say all that stands in index.html. */
export function sayAll() {
  document.documentElement.lang = languageTag();
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = say(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", say(element.dataset.label));
  }
  for (const element of document.querySelectorAll("[data-placeholder]")) {
    element.placeholder = say(element.dataset.placeholder);
  }
}

/** The server's English names of languages, for those of which the browser knows none. @type {Map<string, string>} */
const served = new Map();

/** @param {{language: string, name?: string}[]} languages as the server tells them */
export function takeNames(languages) {
  for (const { language: code, name } of languages) if (name) served.set(code, name);
}

/** @param {string} code @returns {string} the language's name in the interface's language, if it is known */
export function languageName(code) {
  if (code === "und") return say("unknownLanguage");
  try {
    const known = new Intl.DisplayNames([languageTag()], { type: "language", fallback: "none" }).of(code);
    return known ?? served.get(code) ?? code;
  } catch {
    return served.get(code) ?? code;
  }
}

/** @param {string} code @returns {string} the language's name in itself; "" where the browser knows none */
export function autonym(code) {
  try {
    if (!Intl.DisplayNames.supportedLocalesOf([code]).length) return "";
    return new Intl.DisplayNames([code], { type: "language", fallback: "none" }).of(code) ?? "";
  } catch {
    return "";
  }
}

/** @param {number} share @returns {string} */
export function percent(share) {
  if (share < 0.001) return `< ${percent(0.001)}`;
  return share.toLocaleString(languageTag(), { style: "percent", maximumFractionDigits: share < 0.1 ? 1 : 0 });
}

/** @param {number} bytes @returns {string} */
export function fileSize(bytes) {
  const [unit, size] = bytes >= 2 ** 20 ? ["megabyte", bytes / 2 ** 20] : ["kilobyte", bytes / 2 ** 10];
  return size.toLocaleString(languageTag(), { style: "unit", unit, maximumFractionDigits: 1 });
}
