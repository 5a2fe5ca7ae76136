from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.demo.grammar import DemoCorpus, Grammar, generate, load_grammar, write_corpus
from dragoman.demo.lexicon import Lexicon
from dragoman.errors import DataError

SPLITS = ("train", "dev", "test")
LATER = "明天|下个星期|今天晚上"
SPOT = "桌子上|椅子上|公园里|花园里|厨房里|教室里|动物园里|河里|树上"
# What each phenomenon looks like in each language; every sentence must show it in both or in neither.
PHENOMENA = {
    "negation": ("不|没", r"\b(not|cannot|no)\b"),
    "question": ("？", r"\?"),
    "yes or no": ("吗？", r"^(Am|Is|Are|Do|Does|Did|Will|Can)\b"),
    "who": ("谁", r"^Who\b"),
    "what": ("什么", r"^What\b"),
    "where": ("哪里", r"^Where\b"),
    "how many": ("几", r"^How many\b"),
    "progressive": (
        "正在",
        r"^(Am|Is|Are)\b.* (?!interesting|dumpling)\w+ing\b|\b(am|is|are) (\w+ )*?(?!interesting|dumpling)\w+ing\b",
    ),
    "past": ("昨天|上个星期|今天早上", r"\b(yesterday|last week|this morning)\b"),
    "past negated": ("(昨天|上个星期|今天早上)没有", r"\bdid not\b"),
    "future": (f"({LATER})不?会", r"\bwill\b"),
    "ability": (f"^(?!.*({LATER})).*会", r"\bcan(not)?\b"),
    "wish": ("想", r"\bwants?\b"),
    "liking": ("喜欢", r"\blikes?\b"),
    "number": ("[两三四五]", r"\b(two|three|four|five)\b"),
    "this": ("这", r"\b(these|this(?! morning| evening))\b"),
    "that": ("那", r"\b(that|those)\b"),
    "the many": ("(孩子|学生|女孩|男孩|老师|医生)们", r"\bthe (children|students|girls|boys|teachers|doctors)\b"),
    "colour": ("[红黑白]色", r"\b(red|black|white)\b"),
    "existence": (rf"^({SPOT})没?有|^({SPOT})有几", r"\bthere\b"),
    "relation": ("妈妈|爸爸|奶奶|姐姐|弟弟", r"\b(mother|father|grandmother|older sister|younger brother)\b"),
    "home and school": ("在家|学校", r"\b(at home|at school|to school)\b"),
    "class": ("是动物", r"\banimals\b"),
}
ADJECTIVES = "大|小|新|旧|老|可爱的|聪明的|漂亮的|有意思的|红色的|黑色的|白色的"
MEASURES = {
    "个": "孩子 学生 女孩 男孩 朋友 苹果 鸡蛋 饺子 故事 杯子",
    "位": "老师 医生",
    "只": "猫 狗 兔子 羊 鸟 老鼠 老虎 熊猫",
    "匹": "马",
    "头": "牛 大象",
    "条": "鱼",
    "根": "香蕉 胡萝卜",
    "块": "面包 蛋糕 肉",
    "碗": "米饭",
    "杯": "水 牛奶 茶 咖啡",
    "本": "书",
    "份": "报纸",
    "部": "电影 手机",
    "封": "信",
    "朵": "花",
    "顶": "帽子",
    "把": "椅子",
    "辆": "汽车 自行车",
}
IRREGULAR = {
    "child": "children", "mouse": "mice", "fish": "fish", "sheep": "sheep",
    "eat": "ate", "drink": "drank", "read": "read", "write": "wrote", "draw": "drew", "buy": "bought", "see": "saw",
    "speak": "spoke", "swim": "swam", "sing": "sang", "run": "ran", "sleep": "slept", "drive": "drove", "fly": "flew",
    "go": "went", "do": "did", "have": "had",
}  # fmt: skip
# A language pair of our own, to hold the generator to knowing neither Chinese nor English.
TINY = """
[split]
train = 6
dev = 0
test = 1
percent = 1
seen = 1
show = ["says plain ba fee"]
[agreement.one]
verb = "loud"
[word.noun]
ba = { zh = "BA", en = "ab" }
ku = { zh = "KU", en = "uk" }
mo = { zh = "MO", en = "om", kind = "quiet" }
[word.verb]
fee = { zh = "FEE", en = "eef", loud = "eefs" }
goo = { zh = "GOO", en = "oog", loud = "oogs" }
hum = { zh = "HUM", en = "muh", loud = "muhs" }
[frames]
fee = [{ who = "ba ku" }]
goo = [{ who = "ba ku quiet" }]
hum = [{ who = "ba ku" }]
[phrase.plain]
zh = "{noun}"
en = "{noun}"
agreement = "one"
[pattern.says]
zh = "{who}{verb}"
en = "{verb@who} {who}"
pick = { who = "plain" }
"""


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    return load_grammar()


@pytest.fixture(scope="module")
def corpus(grammar: Grammar) -> DemoCorpus:
    return generate(grammar, seed=1)


@pytest.fixture(scope="module")
def other(grammar: Grammar) -> DemoCorpus:
    """A smaller corpus from another seed."""
    split = replace(grammar.tables.split, train=3000, dev=100, test=100, seen=0)
    tables = replace(grammar.tables, split=split)
    return generate(Grammar(Lexicon(tables, "other", "")), seed=2)


def every(*corpora: DemoCorpus) -> list[tuple[str, str]]:
    return [pair for corpus in corpora for pair in (*corpus.train, *corpus.dev, *corpus.test)]


# --- the corpus as a whole -----------------------------------------------------------------------------------------


def test_sizes(corpus: DemoCorpus) -> None:
    assert [len(corpus.train), len(corpus.dev), len(corpus.test)] == [8000, 300, 300]
    assert max(len(en.split()) for _, en in every(corpus)) <= 12


def test_each_sentence_has_one_translation_in_each_direction(corpus: DemoCorpus, other: DemoCorpus) -> None:
    pairs = set(every(corpus, other))
    assert len(pairs) > 11_000
    assert len({zh for zh, _ in pairs}) == len(pairs)
    assert len({en for _, en in pairs}) == len(pairs)


def test_no_sentence_is_written_twice(corpus: DemoCorpus) -> None:
    assert len(set(every(corpus))) == 8600


def test_full_stops_are_translated_and_questions_always_marked(corpus: DemoCorpus) -> None:
    for zh, en in every(corpus):
        assert ("。" in zh, "？" in zh) == ("." in en, "?" in en)
        assert re.fullmatch(r"[\u4e00-\u9fff]+[。？]?", zh)
        assert re.fullmatch(r"[A-Z][a-z]*( [A-Za-z]+)*[.?]?", en)
    stops = Counter(zh[-1] == "。" for zh, _ in corpus.train if "？" not in zh)
    assert 0.45 < stops[True] / stops.total() < 0.55


def test_written_files_are_the_same_in_another_process(corpus: DemoCorpus, tmp_path: Path) -> None:
    write_corpus(tmp_path / "here", corpus)
    code = "import sys; from dragoman.demo.grammar import *; write_corpus(sys.argv[1], generate(load_grammar()))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=environment)
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == ["dev.en", "dev.zh", "test.en", "test.zh", "train.en", "train.zh"]
    for name in names:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


def test_written_files_hold_the_pairs(corpus: DemoCorpus, tmp_path: Path) -> None:
    write_corpus(tmp_path, corpus, source="en", target="zh")
    for name in SPLITS:
        columns = [(tmp_path / f"{name}.{language}").read_bytes().decode() for language in ("zh", "en")]
        assert all(column.endswith("\n") and "\r" not in column for column in columns)
        assert list(zip(*(column.splitlines() for column in columns), strict=True)) == getattr(corpus, name)


def test_unknown_language_is_refused(corpus: DemoCorpus, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)zh or en.*found: +de"):
        write_corpus(tmp_path, corpus, target="de")


# --- what is held out ----------------------------------------------------------------------------------------------


def test_held_out_combinations_are_new(corpus: DemoCorpus, other: DemoCorpus) -> None:
    trained = {sentence.combination for sentence in corpus.sentences["train"]}
    for name in ("dev", "test"):
        assert trained.isdisjoint(sentence.combination for sentence in corpus.sentences[name])
        assert trained.isdisjoint(sentence.combination for sentence in other.sentences[name])


def test_cats_never_eat_fish_in_training(corpus: DemoCorpus) -> None:
    said = re.compile(r"\bcats?\b.*\b(eat|eats|eating|ate)\b.*\bfish\b", re.IGNORECASE)
    assert not [en for _, en in corpus.train if said.search(en)]
    assert corpus.test[0] == ("猫吃鱼", "Cats eat fish")
    assert ("猫吃鱼。", "Cats eat fish.") in corpus.test
    # ... but cats eat, somebody eats fish, and cats do other things with it.
    for pattern in (r"^Cats eat\b", r"\beats? fish\b", r"^Cats like fish\b"):
        assert any(re.search(pattern, en) for _, en in corpus.train)


def test_fillers_of_held_out_sentences_are_familiar(grammar: Grammar, corpus: DemoCorpus) -> None:
    seen = Counter(part for sentence in corpus.sentences["train"] for part in sentence.parts)
    held_out = [part for name in ("dev", "test") for sentence in corpus.sentences[name] for part in sentence.parts]
    assert min(seen[part] for part in held_out) >= grammar.tables.split.seen >= 5


def test_symbols_of_held_out_sentences_are_familiar(corpus: DemoCorpus) -> None:
    def symbols(pairs: list[tuple[str, str]]) -> list[str]:
        return [symbol for zh, en in pairs for symbol in [*zh, *re.findall(r"\w+|[.?]", en.lower())]]

    seen, held_out = Counter(symbols(corpus.train)), Counter(symbols(corpus.dev + corpus.test))
    assert len(held_out) > 400
    assert min(seen[symbol] for symbol in held_out) >= 5


def test_every_pattern_is_trained_and_tested(grammar: Grammar, corpus: DemoCorpus) -> None:
    counts = {name: Counter(sentence.pattern for sentence in corpus.sentences[name]) for name in SPLITS}
    assert min(counts["train"][name] for name in grammar.tables.pattern) >= 10
    assert all(counts["dev"][name] + counts["test"][name] for name in grammar.tables.pattern)
    assert max(counts["train"].values()) <= 0.06 * len(corpus.train)


@pytest.mark.parametrize("name", PHENOMENA)
def test_phenomena_are_frequent_and_translated(name: str, corpus: DemoCorpus) -> None:
    zh, en = PHENOMENA[name]
    for pair in every(corpus):
        assert bool(re.search(zh, pair[0])) == bool(re.search(en, pair[1], re.IGNORECASE)), pair
    assert sum(bool(re.search(zh, pair[0])) for pair in corpus.train) >= 20
    assert sum(bool(re.search(zh, pair[0])) for pair in corpus.test) >= 2


# --- the grammar of the two languages, by rules of our own ---------------------------------------------------------


def plural(noun: str) -> str:
    head, of, rest = noun.partition(" of ")
    if of:
        return plural(head) + of + rest
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    return with_s(noun)


def with_s(word: str) -> str:
    if re.search(r"(s|x|z|ch|sh|o)$", word):
        return word + "es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", word) + "s"


def conjugated(verb: str) -> tuple[str, str, str]:
    """Third person, past and -ing form of a verb (whose first word changes)."""
    verb, space, rest = verb.partition(" ")
    third = "has" if verb == "have" else with_s(verb)
    past = IRREGULAR.get(verb) or re.sub(r"(?<=[^aeiou])y$", "i", verb.removesuffix("e")) + "ed"
    doubled = verb + verb[-1] if verb in ("swim", "run") else re.sub(r"(?<=[^e])e$", "", verb)
    return third + space + rest, past + space + rest, doubled + "ing" + space + rest


def test_plurals(grammar: Grammar) -> None:
    nouns = [word for word in grammar.tables.word["noun"].values() if word.form("plural")]
    assert len(nouns) > 40
    assert [word.form("plural") for word in nouns] == [plural(word.en) for word in nouns]


def test_verb_forms(grammar: Grammar) -> None:
    for verb in grammar.tables.word["verb"].values():
        if verb.form("third"):
            third, past, ing = conjugated(verb.en)
            assert (verb.form("third"), verb.form("past") or past, verb.form("ing") or ing) == (third, past, ing)


def test_measure_words(corpus: DemoCorpus) -> None:
    measure_of = {noun: measure for measure, nouns in MEASURES.items() for noun in nouns.split()}
    nouns = "|".join(sorted(measure_of, key=len, reverse=True))
    counted = re.compile(rf"[一两三四五几]([{''.join(MEASURES)}])(?:{ADJECTIVES})?({nouns})")
    found: Counter[str] = Counter()
    for zh, _ in every(corpus):
        phrases = counted.findall(zh)
        assert len(phrases) == len(re.findall(r"[一两三四五几]", zh)), zh
        assert all(measure_of[noun] == measure for measure, noun in phrases), zh
        assert all(after in f"些一两三四五{''.join(MEASURES)}" for after in re.findall("[这那](.)", zh)), zh
        found.update(measure for measure, _ in phrases)
    assert set(found) == set(MEASURES)


def test_articles(corpus: DemoCorpus) -> None:
    articles = [match for _, en in every(corpus) for match in re.findall(r"\b([Aa]n?) (\w)", en)]
    assert len(articles) > 500
    assert all((article.lower() == "an") == (letter in "aeiou") for article, letter in articles)
    assert not any(re.search(r"\b(any|a|an|no|the) (a|an|any|the)\b", en) for _, en in every(corpus))


def test_subjects_and_verbs_agree(corpus: DemoCorpus) -> None:
    one, many = "is|does|has|was|wants|likes|eats|drinks|goes", "am|are|do|have|were|want|like|eat|drink|go"
    single, plural = "this|that|an?|he|she|tom|mary", "you|we|they|these|those|two|three|four|five|the"
    wrong = re.compile(
        rf"^I (is|does|has|wants|likes|eats|drinks|goes|are|were)\b|"
        rf"^({single}) (\w+ ){{0,2}}({many})\b|^({plural}) (\w+ ){{0,2}}({one})\b|"
        rf"^(is|does) ({plural})\b|^(are|do) ({single})\b|^who (are|do|have|eat|drink|like)\b|"
        r"^there is (two|three|four|five)\b|^there are an?\b",
        re.IGNORECASE,
    )
    for _, en in every(corpus):
        # What follows not, will, can, cannot or to is a plain form, and what follows liking is not a subject's verb.
        assert not wrong.search(re.split(r" (?:not|will|can|cannot|to) ", en)[0]), en
    assert wrong.search("These big cats eats fish")
    assert wrong.search("Is the cats here?")


def test_auxiliaries_take_the_plain_form(grammar: Grammar, corpus: DemoCorpus) -> None:
    plain = {verb.en.split()[0] for verb in grammar.tables.word["verb"].values()} | {"want"}
    after = r"\b(?:(?:did|do|does|will) not|will(?! not)|cannot|can|to(?! the\b| school\b)) (\w+)"
    found = [verb for _, en in every(corpus) for verb in re.findall(after, en)]
    assert len(found) > 1500
    assert set(found) <= plain


# --- other grammars -------------------------------------------------------------------------------------------------


def load_tiny(tmp_path: Path, old: str = "", new: str = "") -> Grammar:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.replace(old, new) if old else TINY, encoding="utf-8")
    return load_grammar(path)


def test_any_two_languages_will_do(tmp_path: Path) -> None:
    corpus = generate(load_tiny(tmp_path))
    assert corpus.test == [("BAFEE", "Eefs ab")]
    assert {*corpus.train} == {
        ("BAGOO", "Oogs ab"), ("KUGOO", "Oogs uk"), ("MOGOO", "Oogs om"),
        ("KUFEE", "Eefs uk"), ("BAHUM", "Muhs ab"), ("KUHUM", "Muhs uk"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('zh = "KU"', 'zh = "BA"', r"look the same in a language\n.*BA\w+ = .*; BA\w+ ="),
        ("train = 6", "train = 7", r"too few sentences for train\n.*7\n.*6"),
        ("plain ba fee", "plain mo fee", r"says plain mo fee: the grammar cannot make this sentence"),
        ("says plain", "sings plain", r"sings plain ba fee: there is no such pattern"),
        ("seen = 1", "seen = 4", r"too few sentences for test"),
        ('verb = "loud"', 'noun = "en"', r"(fee|goo|hum): the word has no form 'that agrees'"),
        (
            'zh = "{who}{verb}"',
            'zh = "{who.tail}{verb}"',
            r"(ba|ku|mo): the word has no form 'tail'",
        ),
    ],
)
def test_grammars_that_cannot_be_written_out(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        generate(load_tiny(tmp_path, old, new))
    assert re.search(message, str(caught.value)), str(caught.value)
