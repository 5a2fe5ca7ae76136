"""Every mistake a user can make is one plain message on standard error and an exit status; nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.translation import Translator
from end_to_end.conftest import Command, Outcome


def refused(outcome: Outcome, *told: str, status: int = 2) -> None:
    """One message, which tells all this."""
    assert outcome.status == status
    assert outcome.out == ""
    assert outcome.err.startswith(("dragoman: ", "Usage: dragoman "))
    assert outcome.err.count("dragoman: ") <= 1
    assert "Traceback" not in outcome.err
    for words in told:
        assert words in outcome.err


@pytest.fixture
def train(dragoman: Command, corpus: Path, tmp_path: Path):
    """`train` on the corpus, with more arguments."""

    def run(*more: object, source: object = None, target: object = None) -> Outcome:
        files = ("--source", source or corpus / "train.source", "--target", target or corpus / "train.target")
        out = () if "--out" in more else ("--out", tmp_path / "run")
        return dragoman("train", *files, "--quiet", *out, *more)

    return run


# Files of pairs


def test_missing_and_unreadable_files_are_named(train, dragoman: Command, model: Path, tmp_path: Path) -> None:
    none = tmp_path / "none"
    refused(train(source=none), f"{none}: cannot read the file", "No such file")
    refused(train(target=tmp_path), f"{tmp_path}: not a file of text", "a directory")
    refused(dragoman("translate", model, "--input", none), f"{none}: cannot read the file")
    refused(dragoman("evaluate", model, "--source", none, "--reference", none), f"{none}: cannot read the file")
    refused(dragoman("score", model, "--source", none, "--target", none), f"{none}: cannot read the file")
    refused(dragoman("compare", none, none, "--reference", none), f"{none}: cannot read the file")
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08")
    refused(dragoman("translate", model, "--input", tmp_path / "cut.gz"), "cut.gz: the gzip file is damaged")


def test_bytes_that_are_no_text_are_located(train, dragoman: Command, model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"fine\nb\xc3\xa4 \xff no\n")
    place = ("the line is not text", "ff (invalid start byte)")
    refused(train(source=bad), f"{bad}, line 2, byte 4: ", *place)
    refused(dragoman("translate", model, "--input", bad), f"{bad}, line 2, byte 4: ", *place)
    found = dragoman("translate", model, stdin=bad.read_bytes())
    assert (found.status, len(found.lines)) == (2, 1), "what came before it is translated"
    assert all(part in found.err for part in ("standard input, line 2, byte 4: ", *place))
    refused(dragoman("score", model, "--source", bad, "--target", bad), f"{bad}, line 2, byte 4: ", *place)
    bad.write_bytes(b"a\n\0")
    refused(dragoman("translate", model, "--input", bad), f"{bad}, line 2, byte 0: ", "NUL")


def test_files_of_different_lengths_are_counted(train, dragoman: Command, corpus: Path, model: Path) -> None:
    long, short = corpus / "train.source", corpus / "dev.source"
    refused(train(source=short), str(short), "different numbers of lines", "200", "20 lines")
    refused(dragoman("score", model, "--source", long, "--target", short), "different numbers of lines", "200", "20")
    found = dragoman("evaluate", model, "--source", long, "--reference", short)
    refused(found, f"{short}: sources and references", f"200 lines, as in {long}")
    refused(dragoman("compare", long, long, "--reference", short), "200", "20")


def test_files_that_were_forgotten_are_asked_for(dragoman: Command, corpus: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run")
    refused(dragoman("train", *out), "nothing to train on", "--source and --target")
    refused(dragoman("prepare", *out), "no training pairs", "--source and --target")
    refused(dragoman("train", *out, "--source", corpus / "dev.source"), "source and target files go in pairs")
    refused(dragoman("train", *out, "--pairs", corpus / "dev.source"), "dev.source", ".tmx or .parquet")
    refused(dragoman("train"), "Missing option '--out'")
    refused(dragoman("translate"), "Missing argument 'MODEL'")


# Settings


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("d_modle=3", ["unknown setting 'd_modle'", "did you mean 'model.d_model'?"]),
        ("hidden_size=3", ["unknown setting 'hidden_size'", "'hidden_size' is called 'model.d_model' here"]),
        ("training.batch_size=9", ["batches are counted in tokens", "training.batch_tokens"]),
        ("d_model=wide", ["model.d_model", "a whole number of at least 1", "(found 'wide')"]),
        ("label_smoothing=1.5", ["training.label_smoothing", "a number of at least 0 and below 1", "(found 1.5)"]),
        ("norm=middle", ["model.norm", "pre or post"]),
        ("modle.d_model=3", ["there is no section 'modle'"]),
        ("d_model", ["key=value"]),
        ("device=gpu", ["training.device", "cuda"]),
        ("decoding.beam_size=100000", ["decoding.beam_size", "from 1 to 1,024"]),
    ],
)
def test_settings_are_checked_before_anything_is_made(setting: str, told: list[str], train, tmp_path: Path) -> None:
    refused(train("--set", setting), *told)
    assert not (tmp_path / "run").exists()


def test_config_files_are_checked(train, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    refused(train("--config", file), f"{file}: cannot read the config file")
    file.write_text("[model]\nd_model == 3\n")
    refused(train("--config", file), f"{file}: not a TOML file", "line 2")
    file.write_text("[model]\nnhead = 3\n")
    refused(train("--config", file), f"{file}: unknown setting 'model.nhead'", "'model.num_heads'")
    file.write_text('[data]\ndev_source = ["${DRAGOMAN_NO_SUCH_FOLDER}/x"]\n')
    refused(train("--config", file), str(file), "DRAGOMAN_NO_SUCH_FOLDER is not set")


def test_a_run_is_not_overwritten_and_keeps_its_settings(dragoman: Command, run: Path, train) -> None:
    before = (run / "model.safetensors").read_bytes()
    refused(train("--out", run), f"{run}: there is a run here already", "--resume")
    refused(train("--out", run, "--resume", "--set", "d_model=64"), "model.d_model: 16 in the run, 64 now")
    assert (run / "model.safetensors").read_bytes() == before
    refused(train("--init-from", run / "data"), f"{run / 'data'}: no model to start from")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--beam-size", 2, "--nbest", 3), ["n_best 3 is more than beam_size 2"]),
        (("--beam-size", 0), ["decoding.beam_size", "from 1 to 1,024", "(found 0)"]),
        (("--nbest", 0), ["n_best", "from 1 to 1,024"]),
        (("--beam-size", "many"), ["--beam-size", "expected a whole number"]),
        (("--set", "n_best=many"), ["n_best", "(found 'many')"]),
        (("--set", "num_beams=3"), ["'num_beams' is called 'decoding.beam_size' here"]),
        (("--set", "tempreature=3"), ["did you mean 'decoding.temperature'?"]),
        (("--set", "d_model=3"), ["only decoding settings can be changed here", "model.d_model"]),
        (("--device", "abacus"), ["this device is not available", "cpu", "abacus"]),
        (("--engine", "steam"), ["no such engine", "auto or native or packed or module"]),
        (("--colour",), ["No such option", "--colour"]),
    ],
)
def test_options_of_translate_are_checked(
    arguments: tuple[object, ...], told: list[str], dragoman: Command, model: Path
) -> None:
    refused(dragoman("translate", model, *arguments, stdin=b"ba\n"), *told)


def test_options_of_other_verbs_are_checked(
    dragoman: Command, run: Path, model: Path, causal_model: Path, corpus: Path, tmp_path: Path
) -> None:
    files = ("--source", corpus / "dev.source", "--reference", corpus / "dev.target")
    refused(dragoman("evaluate", model, *files, "--metric", "blue"), "no metric 'blue'", "did you mean 'bleu'?")
    refused(dragoman("compare", *files[1::2], "--reference", files[1], "--metric", "cher"), "cher")
    refused(dragoman("complete", causal_model, "--beam-size", 2, "--nbest", 3), "n_best 3 is more than beam_size 2")
    refused(dragoman("average", run, "--last", 9, "--out", tmp_path / "a"), str(run), "not so many checkpoints")
    refused(dragoman("average", run, "--last", 0, "--out", tmp_path / "a"), "--last")
    refused(dragoman("average", tmp_path / "none", "--last", 1, "--out", tmp_path / "a"), "no run here")
    refused(dragoman("train", "--resume", "--out", tmp_path / "a"), f"{tmp_path / 'a'}: there is no run here to go on")
    refused(dragoman("demo", "--direction", "zh-fr", "--out", tmp_path / "a"), "zh-en or en-zh")
    refused(dragoman("tranlsate"), "tranlsate")
    assert not (tmp_path / "a").exists()


def test_prepared_data_and_files_are_not_both_taken(train, dragoman: Command, corpus: Path, tmp_path: Path) -> None:
    refused(train("--prepared", tmp_path), "prepared data and files", "data.source, data.target", "one or the other")
    more = ("--prepared", tmp_path, "--out", tmp_path / "run")
    refused(
        dragoman("train", *more, "--text", corpus / "dev.source", "--family", "causal"), "data.prepared and data.text"
    )
    refused(dragoman("train", *more, "--dev-source", corpus / "dev.source"), "data.prepared and data.dev_source")
    assert not (tmp_path / "run").exists()
    # Those of a config file, which may have served to prepare them, give way.
    file = tmp_path / "c.toml"
    file.write_text(f'[data]\nsource = "{corpus / "dev.source"}"\ntarget = "{corpus / "dev.target"}"\n')
    refused(dragoman("train", *more, "--config", file), "not a prepared directory")
    # What a run wrote names all files that there might be, even where there are none.
    file.write_text(f'[data]\nsource = []\ntarget = []\nprepared = "{tmp_path}"\n')
    refused(dragoman("train", "--config", file, "--out", tmp_path / "run"), "not a prepared directory")


@pytest.mark.parametrize(("family", "other"), [("causal", "num_encoder_layers"), ("masked", "num_decoder_layers")])
def test_layers_of_a_stack_that_is_not_there_are_refused(
    family: str, other: str, dragoman: Command, corpus: Path, tmp_path: Path
) -> None:
    arguments = ("train", "--text", corpus / "dev.source", "--family", family, "--out", tmp_path / "run")
    refused(dragoman(*arguments, "--set", f"{other}=1"), f"a {family} model has one stack", f"model.{other}")
    sizes = [f"{name}=1" for name in ("num_encoder_layers", "num_decoder_layers", "max_steps")]
    both = [part for size in (*sizes, "d_model=8", "num_heads=1", "d_ff=8") for part in ("--set", size)]
    assert f"model.{other} does not count" in dragoman(*arguments, *both).err


# Models


@pytest.mark.parametrize("verb", ["translate", "complete", "info", "average", "score", "evaluate"])
def test_a_directory_without_a_model_is_refused(verb: str, dragoman: Command, corpus: Path, tmp_path: Path) -> None:
    more = {
        "average": ("--last", 1, "--out", tmp_path / "out"),
        "score": ("--source", corpus / "dev.source", "--target", corpus / "dev.target"),
        "evaluate": ("--source", corpus / "dev.source", "--reference", corpus / "dev.target"),
    }.get(verb, ())
    for folder in (tmp_path / "nowhere", corpus):
        refused(dragoman(verb, folder, *more), str(folder))
    assert not (tmp_path / "out").exists()


def test_the_wrong_family_is_told_the_right_verb(dragoman: Command, model: Path, causal_model: Path) -> None:
    refused(dragoman("complete", model, "ba"), f"{model}: only a decoder-only model", "`dragoman translate`")
    refused(dragoman("translate", causal_model), f"{causal_model}: only an encoder-decoder translates", "causal")
    refused(dragoman("translate", model, "--ensemble", causal_model), f"{causal_model}: only an encoder-decoder")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocabulary.json"])
@pytest.mark.parametrize("damage", ["cut", "noise"])
def test_damaged_files_are_named(name: str, damage: str, dragoman: Command, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) // 2] if damage == "cut" else b"\x80nonsense" * 9)
    for verb in ("translate", "info"):
        refused(dragoman(verb, folder), f"{folder / name}: ")


def test_missing_files_are_named(dragoman: Command, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    (folder / "vocabulary.json").unlink()
    refused(dragoman("translate", folder), str(folder), "vocabulary.json")
    (folder / "model.safetensors").unlink()
    refused(dragoman("translate", folder), str(folder / "model.safetensors"), "No such file")


def test_a_model_with_other_tokenizers_cannot_join(dragoman: Command, model: Path, byte_model: Path) -> None:
    refused(dragoman("translate", model, "--ensemble", byte_model), str(byte_model), "the same tokenizers")


def test_a_prefix_with_an_unknown_word_is_told(
    dragoman: Command, model: Path, byte_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    found = dragoman("translate", model, "--prefix", "fo wug gu", "--output", out, stdin=b"ba\n")
    refused(found, "the target vocabulary lacks", "'wug' in 'fo wug gu'")
    assert not out.exists()
    assert dragoman("translate", byte_model, "--prefix", "fo wüg", stdin=b"ba\n").out.startswith("fo wüg")


@pytest.mark.parametrize("option", ["--beam-size", "--nbest"])
def test_beams_that_no_machine_bears_are_refused(
    option: str, dragoman: Command, model: Path, causal_model: Path
) -> None:
    told = ("from 1 to 1,024", "100000")
    refused(dragoman("translate", model, option, 100_000, stdin=b"ba\n"), *told)
    refused(dragoman("complete", causal_model, "ba", option, 100_000), *told)
    refused(dragoman("translate", model, option, 1025, "--sampling", stdin=b"ba\n"), "from 1 to 1,024", "1025")


# Output


def test_input_is_never_overwritten_by_output(dragoman: Command, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("ba\nce\n")
    (tmp_path / "link").symlink_to(file)
    for output in (file, tmp_path / "link"):
        refused(dragoman("translate", model, "--input", file, "--output", output), "would overwrite the input")
    assert file.read_text() == "ba\nce\n"
    for option in ("--hypotheses", "--report"):
        judged = dragoman("evaluate", model, "--source", file, "--reference", file, option, tmp_path / "link")
        refused(judged, "would overwrite the input", f"give another {option}")
    refused(dragoman("compare", file, file, "--reference", file, "--report", file), "would overwrite the input")
    assert file.read_text() == "ba\nce\n"


def test_input_that_is_missing_empties_no_output(dragoman: Command, model: Path, tmp_path: Path) -> None:
    for verb, name in (("translate", "kept"), ("synthesize", "kept.tsv")):
        output = tmp_path / name
        output.write_text("kept")
        refused(dragoman(verb, model, "--input", tmp_path / "none", "--output", output), "cannot read the file")
        assert output.read_text() == "kept"


def test_output_that_cannot_be_written_is_one_message(model: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "no" / "such" / "out"
    source.write_text("ba\n")
    command = [sys.executable, "-m", "dragoman", "translate", str(model), "--input", str(source), "--output"]
    found = subprocess.run([*command, str(output)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == f"dragoman: {output}: No such file or directory\n"


@pytest.mark.parametrize("option", ["--hypotheses", "--report"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    option: str, dragoman: Command, model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("--source", corpus / "dev.source", "--reference", corpus / "dev.target")
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "from_pretrained", lambda *_, **__: pytest.fail("a model was loaded"))
        for out in (tmp_path / "no" / "such", tmp_path):
            refused(dragoman("evaluate", model, *files, option, out), f"{out}: ", status=1)
    out = tmp_path / "out"
    out.write_text("kept")
    refused(dragoman("evaluate", tmp_path / "none", *files, option, out), "no model here")
    assert out.read_text() == "kept"
    refused(dragoman("evaluate", tmp_path / "none", *files, option, tmp_path / "new"), "no model here")
    assert not (tmp_path / "new").exists()


def test_a_closed_standard_output_is_one_message(model: Path) -> None:
    command = f"{sys.executable} -m dragoman info {model} >&-"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (1, "dragoman: Bad file descriptor\n")


def test_an_average_overwrites_no_run(dragoman: Command, run: Path, model: Path, tmp_path: Path) -> None:
    before = (run / "model.safetensors").read_bytes()
    shutil.copytree(run, tmp_path / "other")
    for out in (run, tmp_path / "other"):
        refused(dragoman("average", run, "--last", 1, "--out", out), f"{out}: the average would overwrite")
        assert (out / "model.safetensors").read_bytes() == before
    assert dragoman("average", run, "--last", 1, "--out", tmp_path / "mean").status == 0
    refused(dragoman("average", run, "--last", 1, "--out", tmp_path / "mean"), "the average would overwrite")
    file = run / "config.json"
    refused(dragoman("average", run, "--last", 1, "--out", file), f"{file}: the average would overwrite")


def test_an_argument_that_is_no_text_is_told(dragoman: Command, model: Path, causal_model: Path) -> None:
    refused(dragoman("complete", causal_model, "ba \udcff"), "an argument is not text", "'ba \\udcff'")
    refused(dragoman("translate", model, "--prefix", "\udcff", stdin=b"ba\n"), "an argument is not text")


def test_nothing_half_printed_is_taken_for_json(dragoman: Command, model: Path, tmp_path: Path) -> None:
    for line in dragoman("translate", model, "--json", stdin='ba\n\n猫"\\\n'.encode()).lines:
        json.loads(line)
    (tmp_path / "bad").write_bytes(b"\xff\n")
    refused(dragoman("score", model, "--source", tmp_path / "bad", "--target", tmp_path / "bad", "--json"), "byte 0")


def test_the_input_is_not_written_over_by_whatever_name(
    dragoman: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("ba ce\n", encoding="utf-8")
    (tmp_path / "hard").hardlink_to(lines)
    for output in (lines, tmp_path / "hard"):
        refused(dragoman("translate", model, "--input", lines, "--output", output), "overwrite the input")
    for verb, output in (("translate", "lines"), ("synthesize", "made.tsv")):
        path = tmp_path / output
        path.write_text("ba ce\n", encoding="utf-8")
        command = [sys.executable, "-m", "dragoman", verb, str(model), "--output", str(path)]
        with path.open("rb") as stream:
            done = subprocess.run(command, stdin=stream, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "the output would overwrite the input" in done.stderr
        assert path.read_text(encoding="utf-8") == "ba ce\n"


def test_what_is_not_the_demos_is_left_alone(dragoman: Command, run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "corpus" / "train.en"
    mine.parent.mkdir(parents=True)
    mine.write_text("MINE\n", encoding="utf-8")
    refused(dragoman("demo", "--out", tmp_path / "mine"), str(mine), "says something else")
    assert mine.read_text(encoding="utf-8") == "MINE\n"
    assert [path.name for path in mine.parent.iterdir()] == ["train.en"]
    before = sorted(path.name for path in run.iterdir())
    refused(dragoman("demo", "--out", run), "another run is there already", "--out")
    assert sorted(path.name for path in run.iterdir()) == before


def test_prepared_data_are_neither_averaged_into_nor_trained_in(
    dragoman: Command, run: Path, corpus: Path, tmp_path: Path
) -> None:
    files = ("--source", corpus / "train.source", "--target", corpus / "train.target")
    assert dragoman("prepare", *files, "--out", tmp_path / "data").status == 0
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()}
    refused(dragoman("average", run, "--last", 2, "--out", tmp_path / "data"), "overwrite what is there")
    refused(dragoman("train", "--prepared", tmp_path / "data", "--out", tmp_path / "data"), "a directory of its own")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()} == before


def test_what_no_memory_holds_is_told(train: Callable[..., Outcome], corpus: Path) -> None:
    given = ("--config", corpus / "small.toml")
    found = train(*given, "--set", "d_model=1000000000", "--set", "num_heads=1")
    assert found.status == 1
    assert "there is too little memory" in found.err
    assert "Traceback" not in found.err
    refused(train(*given, "--set", "vocab_size=9999999999"), "vocab_size")


def test_searches_that_a_model_cannot_do_are_refused(dragoman: Command, causal_model: Path) -> None:
    for setting in ("knn_weight=0.4", "right_to_left_weight=0.4"):
        refused(dragoman("complete", causal_model, "ba", "--set", setting), setting.split("=")[0])


def test_models_of_other_languages_do_not_decide_together(dragoman: Command, model: Path, tmp_path: Path) -> None:
    for name, languages in (("there", ("de", "en")), ("back", ("en", "de")), ("unknown", (None, "en"))):
        shutil.copytree(model, tmp_path / name)
        tree = json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8"))
        del tree["sha256"]
        tree["languages"] = dict(zip(("source", "target"), languages, strict=True))
        (tmp_path / name / "config.json").write_text(json.dumps(tree), encoding="utf-8")
    there, back = tmp_path / "there", tmp_path / "back"
    assert dragoman("translate", there, "--ensemble", tmp_path / "unknown", stdin=b"ba\n").status == 0
    refused(
        dragoman("translate", there, "--ensemble", back, stdin=b"ba\n"), "the same languages", "de to en", "en to de"
    )


def test_an_input_that_cannot_be_read_leaves_the_output_as_it_was(
    dragoman: Command, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad").write_bytes(b"ba ce\n\xff\n")
    for verb, name in (("translate", "kept"), ("synthesize", "kept.tsv")):
        (tmp_path / name).write_text("work of years\n", encoding="utf-8")
        refused(dragoman(verb, model, "--input", tmp_path / "bad", "--output", tmp_path / name), "bad, line 2")
        assert (tmp_path / name).read_text(encoding="utf-8") == "work of years\n"


def test_nothing_may_be_read_and_written(model: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "translate", str(model), "--output", "/dev/null"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_defect_that_speaks_of_memory_keeps_its_traceback(
    dragoman: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(Translator, "from_pretrained", broken)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        dragoman("translate", model)
