"""A verb of the command line: it answers an option that it does not have, and refuses one that is given twice."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

_MAKERS = ("train", "prepare")  # take every setting; other verbs with --set take those of decoding


class Verb(TyperCommand):
    """A command whose unknown options are looked up among the settings, ours and those of other toolkits."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options, as every command does; one given twice, of which the last would count, is refused."""
        try:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(one for one in order if isinstance(one, TyperOption)).items():
                if count > 1 and not (option.multiple or option.is_flag or option.count):
                    raise typer.BadParameter(f"given {count} times, and only one can count", ctx, option)
            return super().parse_args(ctx, args)
        except Exception as error:
            if not isinstance(message := getattr(error, "message", None), str):
                raise
            # By its name: from which module it comes differs between versions of Typer.
            if type(error).__name__ == "NoSuchOption" and any("--set" in one.opts for one in self.params):
                told = _answer(getattr(error, "option_name", ""), decoding_only=self.name not in _MAKERS)
                if told is not None:
                    vars(error).update(message=f"{message}\n  to do:    {told}", possibilities=None)
            elif type(error).__name__ == "BadParameter":
                vars(error).update(message=_in_words(message))
            raise


def _in_words(message: str) -> str:
    """What Typer's validator says of a value, as this program says it of its settings."""
    words = message.removeprefix("Value error, ").partition(", unable to parse")[0]
    words = re.sub("^Input should be ", "expected ", words)
    words = words.replace("a valid integer", "a whole number").replace("a valid number", "a number")
    return words.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")


def _answer(option: str, *, decoding_only: bool) -> str | None:
    """What to say of an option that is a setting, here or elsewhere."""
    from dragoman.config import all_settings, foreign_names
    from dragoman.config.elsewhere import answers, simplified

    name = simplified(option.partition("=")[0])
    taken = {one.name: one.dotted for one in all_settings() if one.section == "decoding" or not decoding_only}
    ours = foreign_names().get(name, "").rpartition(".")[2] or name
    if dotted := taken.get(ours):
        return f"--set {dotted}=..."
    told = answers().get(name)
    return told if told is not None and (not decoding_only or "decoding." in told) else None
