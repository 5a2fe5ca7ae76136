"""The page that an export to ONNX may have translates in a browser as the model does here, and asks nobody else."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browsing import ACCESS, browser, watched
from dragoman import export
from dragoman.errors import ConfigError
from dragoman.export import export_model
from dragoman.export.pieces import pieces_of
from dragoman.export.tokenizer_json import tokenizer_json
from dragoman.export.web_page import side_facts
from dragoman.importing import import_model
from dragoman.models.description import load_tokenizers, read_config
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.vocabulary import Vocabulary
from dragoman.translation import Translator
from export_models import TEXTS, make_directory
from importing_directories import MAKERS

__all__ = ["browser"]

RUNTIME = Path(__file__).parents[2] / "build" / "npm" / "node_modules" / "onnxruntime-web"
SCRIPTS = Path(export.__file__).parent / "web"
FILES = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
LINES = ["the cat sits", "gute Nacht, Katze", "", "猫坐 on the mat 🐈", "a dog and a cat run run run", "der Hund läuft"]
# What normalisation and SentencePiece do to texts: blanks, joiners, forms, bytes, signs of their own.
ODD = [
    *TEXTS, " two  blanks ", "ﬁne ½ A\u030a\u0301 ＡＢ", "zero\u200bwidth\u00a0blank\u3000wide",
    "</s> <unk> <0x41> ▁a ␛_b", "猫\u200d👩\u200d🚀 ñ", "\tx\u2028y", "ｶﾞ ㍿ ～", "a\u200cb",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules as maps of characters take seconds to compile, and the page has the rules themselves."""
    monkeypatch.setattr("dragoman.export.pieces._character_map", lambda rule: b"")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and its export with a page."""
    folder = tmp_path_factory.mktemp("web")
    model, out = make_directory(folder / "model", norm="pre", positions="rotary"), folder / "out"
    made = export_model(model, "onnx", out, check=False, web=True)
    assert any("npm install" in note for note in made.notes)
    return model, out


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, as any server of files gives it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def with_runtime(folder: Path) -> None:
    """Put the two files of the runtime where `npm install` puts the package; skip the test where there are none."""
    if not RUNTIME.is_dir():
        pytest.skip(f"onnxruntime-web is not in {RUNTIME}: .ci/run says how npm puts it there")
    made = folder / "node_modules" / "onnxruntime-web" / "dist"
    made.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copy(RUNTIME / "dist" / name, made)


def translated(page: Page, lines: list[str], search: str) -> list[str]:
    page.get_by_role("combobox").select_option(search)
    page.locator("#source").fill("\n".join(lines))
    page.locator("#translate").click()
    expect(page.locator("#status")).to_contain_text("translated in")
    return page.locator("#output").evaluate("(element) => element.textContent.split('\\n')")


def test_outputs_in_a_browser_are_those_of_the_model(exported: tuple[Path, Path], browser: Browser) -> None:
    model, out = exported
    with_runtime(out)
    ours = Translator.from_pretrained(model, precision="float32")
    with served(out) as address, watched(browser, address) as page:
        expect(page.locator("#status")).to_have_text("Ready.")
        page.context.set_offline(True)
        for search, options in (("greedy", {"beam_size": 1, "length_penalty": 0.0}), ("own", {})):
            assert translated(page, LINES, search) == [one.text for one in ours.translate(LINES, **options)]
        # Typed, so long a text takes the browser 20 seconds.
        page.locator("#source").evaluate("(element, text) => { element.value = text; }", "\n".join(LINES * 400))
        page.get_by_role("button", name="Translate").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#status")).to_have_text("Stopped.")
        assert translated(page, LINES[:1], "greedy") == [
            ours.translate(LINES[:1], beam_size=1, length_penalty=0.0)[0].text
        ]


def test_two_vocabularies_in_int8_run_in_a_browser(tmp_path: Path, browser: Browser) -> None:
    model, out = make_directory(tmp_path / "model", "two", norm="post", positions="relative"), tmp_path / "out"
    export_model(model, "onnx", out, quantization="int8", check=False, web=True)
    with_runtime(out)
    with served(out) as address, watched(browser, address) as page:
        # Which token wins in int8 is a matter of the processor.
        found = translated(page, LINES, "greedy")
        assert [not line for line in found] == [not line for line in LINES]


KINDS = [
    "bpe", "bpe nfkc", "bpe nmt_nfkc", "unigram", "unigram blanks", "unigram nmt_nfkc", "word", "word nfc", "character",
    "imported",
]  # fmt: skip


def tokenizer_of(name: str, folder: Path) -> Tokenizer:
    kind, *rule = name.split()
    rules: dict[str, Any] = {"normalization": rule[0]} if rule else {}
    if kind == "imported":  # a table of pieces and a SentencePiece model with other ids
        MAKERS["marian-mt"](folder / "given")
        import_model(folder / "given", folder / "run")
        return load_tokenizers(folder / "run", read_config(folder / "run")[0]).source
    if kind == "bpe" or kind == "unigram":
        return SentencePieceTokenizer.train(kind, TEXTS, vocab_size=320, **rules)
    return Vocabulary.train("word" if kind == "word" else "character", [*TEXTS, "a\u2581b"], **rules)


CUT = """async ([tree, facts, texts, rows]) => {
  const { Tokenizer } = await import("/tokenizer.js");
  const tokenizer = new Tokenizer(JSON.parse(tree), facts);
  return [texts.map((text) => tokenizer.encode(text)), rows.map((row) => tokenizer.decode(row))];
}"""


@pytest.fixture(scope="module")
def scripts(browser: Browser) -> Iterator[Page]:
    """A page from whose folder the scripts of the export can be imported."""
    with served(SCRIPTS) as address, watched(browser, f"{address}package.json") as page:
        yield page


@pytest.mark.parametrize("name", KINDS)
def test_texts_are_cut_and_joined_in_a_browser_as_here(name: str, scripts: Page, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name, tmp_path)
    pieces = pieces_of(tokenizer)
    facts = side_facts(pieces, tokenizer, None, "tokenizer.json")
    draw, wanted = random.Random(1), [tokenizer.encode(text) for text in ODD]
    # Outputs of any ids: bytes that are no text too.
    rows = [*wanted, *(draw.choices(range(len(tokenizer)), k=12) for _ in range(20))]
    cut, joined = scripts.evaluate(CUT, [tokenizer_json(pieces, tokenizer), facts, ODD, rows])
    assert dict(zip(ODD, cut, strict=True)) == dict(zip(ODD, wanted, strict=True))
    assert joined == [tokenizer.decode(row) for row in rows]


@pytest.mark.parametrize(
    ("locale", "told"), [("en-GB", "onnxruntime-web is not here yet"), ("zh-CN", "这里还没有运行库 onnxruntime-web")]
)
def test_a_page_without_its_runtime_says_how_to_get_it(
    locale: str, told: str, exported: tuple[Path, Path], tmp_path: Path, browser: Browser
) -> None:
    out = shutil.copytree(exported[1], tmp_path / "out", ignore=shutil.ignore_patterns("node_modules"))
    with served(out) as address, watched(browser, address, locale=locale) as page:
        expect(page.get_by_role("alert")).to_contain_text(told)
        expect(page.locator("pre")).to_have_text("npm install")
        expect(page.locator("#translate")).to_be_disabled()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 360)])
def test_the_page_can_be_used_by_all(
    scheme: str, width: int, exported: tuple[Path, Path], tmp_path: Path, browser: Browser
) -> None:
    out = shutil.copytree(exported[1], tmp_path / "out", ignore=shutil.ignore_patterns("node_modules", "encoder*"))
    with_runtime(out)
    with served(out) as address, watched(browser, address, scheme=scheme, width=width) as page:
        expect(page.get_by_role("alert")).to_contain_text("onnx/encoder_model.onnx (404)")
        assert page.evaluate(ACCESS) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("alert")).to_contain_text("无法载入")
        page.get_by_role("button", name="深色").click()
        assert page.evaluate("document.documentElement.dataset.theme") == ("dark" if scheme == "light" else "light")
        assert page.evaluate(ACCESS) == []


def test_a_page_runs_graphs_of_onnx_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only ONNX graphs"):
        export_model(make_directory(tmp_path / "model"), "marian", tmp_path / "out", web=True)
    assert not (tmp_path / "out").exists()
