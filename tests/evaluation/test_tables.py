from __future__ import annotations

from dragoman.evaluation.tables import WIDTH, Table, fits

TABLE = Table("A title", ("name", "n"), (("猫", "7"), ("a|b", "1,234")))


def test_columns_line_up_wide_characters_too() -> None:
    assert TABLE.to_text().split("\n") == ["A title", "name      n", "猫        7", "a|b   1,234"]


def test_markdown_has_a_rule_and_no_stray_bars() -> None:
    assert TABLE.to_markdown().split("\n") == [
        "### A title", "", "| name | n |", "| --- | ---: |", "| 猫 | 7 |", "| a\\|b | 1,234 |",
    ]  # fmt: skip


def test_it_fits_or_not() -> None:
    assert fits(Table("t", ("x",), (("x" * WIDTH,),)))
    assert not fits(Table("t", ("x",), (("x" * (WIDTH + 1),),)))
    assert not fits(Table("t", ("x",), (("猫" * (WIDTH // 2 + 1),),)))
