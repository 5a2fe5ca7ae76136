"""Files of pairs on their way to token stores: what the reader left out is counted, languages and columns count."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.config import TrainConfig, make_config
from dragoman.data import Prepared, prepare
from dragoman.errors import ConfigError, DataError

PAIRS = [(f"die Katze sieht {n} Hunde", f"the cat sees {n} dogs") for n in range(60)]


def config(path: Path, **data: object) -> TrainConfig:
    tokenizer = {"kind": "bpe", "joint": False}
    return make_config({"out": "unused", "data": {"pairs": [str(path)], **data}, "tokenizer": tokenizer})


def csv(folder: Path) -> Path:
    lines = ["id,German,English", *(f"{n},{source},{target}" for n, (source, target) in enumerate(PAIRS))]
    (folder / "x.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / "x.csv"


def tmx(folder: Path) -> Path:
    units = ['<tu><tuv xml:lang="de"><seg>nur</seg></tuv></tu>']
    for source, target in PAIRS:
        texts = (("de", source), ("en-GB", target))
        units.append(
            "<tu>" + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in texts) + "</tu>"
        )
    (folder / "x.tmx").write_text("<tmx><body>" + "\n".join(units) + "</body></tmx>", encoding="utf-8")
    return folder / "x.tmx"


def texts(made: Prepared) -> set[tuple[str, str]]:
    """All pairs: of training by their ids, and the held-out ones."""
    both = made.tokenizers.source, made.tokenizers.target
    rows = ((made.train.source(row), made.train.target(row)) for row in range(len(made.train)))
    kept = {(both[0].decode(source.tolist()), both[1].decode(target.tolist())) for source, target in rows}
    return kept | set(zip(made.dev_source, made.dev_target, strict=True))


def test_columns_of_a_table_are_what_is_learned(tmp_path: Path) -> None:
    named = prepare(config(csv(tmp_path), columns="source=German,target=English"), tmp_path / "named")
    assert texts(named) == set(PAIRS)
    assert named.languages == ("de", "en")
    numbered = prepare(config(csv(tmp_path), columns="source=3,target=2"), tmp_path / "numbered")
    assert texts(numbered) == {(target, source) for source, target in PAIRS}
    assert numbered.counts["train"].dropped["header"] == 1
    assert numbered.key != named.key
    data = {"prepared": str(tmp_path / "named"), "columns": "source=3,target=2"}
    given = make_config({"out": "x", "data": data})
    with pytest.raises(ConfigError, match=r"data\.columns"):
        prepare(given, tmp_path / "other")


def test_units_without_a_side_are_told_and_languages_are_part_of_the_key(tmp_path: Path) -> None:
    german = config(tmx(tmp_path), source_language="de", target_language="en")
    made = prepare(german, tmp_path / "out")
    assert texts(made) == set(PAIRS)
    assert made.counts["train"].dropped["without one side"] == 1
    turned = prepare(config(tmx(tmp_path), source_language="en", target_language="de"), tmp_path / "out")
    assert texts(turned) == {(target, source) for source, target in PAIRS}
    with pytest.raises(DataError, match="no unit has a text in both"):
        prepare(config(tmx(tmp_path), source_language="fr", target_language="de"), tmp_path / "none")
