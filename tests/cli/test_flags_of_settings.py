"""The record of settings knows the options that give them."""

from __future__ import annotations

import typer

from dragoman.cli import make_app
from dragoman.cli.decoding import translate
from dragoman.cli.training import train
from dragoman.config import all_settings


def test_the_flags_in_the_record_are_those_of_the_command_line() -> None:
    verbs = typer.main.get_command(make_app([train, translate])).commands
    options = {name: {one.name: one.opts for one in verb.params} for name, verb in verbs.items()}
    for one in all_settings():
        verb = "translate" if one.section == "decoding" else "train"
        given_by = options[verb].get({"n_best": "nbest"}.get(one.name, one.name), [])
        assert (one.flag in given_by) if one.flag else not given_by, one.dotted
