from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib.util
import io
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.text import ReadCounts, count_lines, lines, read_lines, scan_stream
from dragoman.text.lines import file_hash
from dragoman.text.opening import is_stream


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def texts(path: Path, policy: lines.BadText = "stop") -> list[str]:
    return [line.text for line in read_lines(path, on_bad_text=policy)]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\r\nb\n", ["a", "b"]),
        (b"a\r\r\nb\rc\n", ["a\r", "b\rc"]),
        (b"a\r", ["a\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", ["\ufeffa"]),
        ("a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\n".encode(), ["a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g"]),
    ],
)
def test_lines_end_at_lf_only(tmp_path: Path, name: str, data: bytes, expected: list[str]) -> None:
    if data or name == "a.txt":
        assert texts(write(tmp_path / name, data)) == expected
        assert count_lines(tmp_path / name) == len(expected)


@pytest.mark.parametrize(
    ("bad", "byte"),
    [
        (b"ab\xff", 2),
        (b"a\xc0\xaf", 1),  # overlong "/"
        (b"\xed\xa0\x80", 0),  # a surrogate
        (b"abc\xe2\x82", 3),  # cut short
        (b"\xf4\x90\x80\x80", 0),  # beyond U+10FFFF
        (b"a\0b", 1),
    ],
)
def test_bad_text_is_located(tmp_path: Path, bad: bytes, byte: int) -> None:
    path = write(tmp_path / "bad.txt", b"fine\n\n" + bad + b"\nfine\n")
    with pytest.raises(DataError) as caught:
        texts(path)
    assert (caught.value.file, caught.value.line, caught.value.byte) == (str(path), 3, byte)
    assert caught.value.exit_code == 2


def test_a_byte_is_counted_from_the_start_of_the_line_mark_included(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        texts(write(tmp_path / "bad.txt", b"\xef\xbb\xbfab\xff"))
    assert caught.value.byte == 5


def test_utf16_gets_its_own_advice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="iconv -f UTF-16"):
        texts(write(tmp_path / "bad.txt", "猫\n".encode("utf-16")))


def test_gzip_under_another_name_gets_its_own_advice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="looks like gzip: decompress it"):
        texts(write(tmp_path / "a.txt", gzip.compress(b"text\n")))


def test_policies_replace_and_skip_count_what_they_do(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.txt", b"a\nb\xff\nc\0\nd\n")
    counts = ReadCounts()
    assert [line.text for line in read_lines(path, on_bad_text="replace", counts=counts)] == [
        "a", "b\ufffd", "c\ufffd", "d",
    ]  # fmt: skip
    assert counts == ReadCounts(read=4, replaced=2, skipped=0)
    counts = ReadCounts()
    assert [(line.number, line.text) for line in read_lines(path, on_bad_text="skip", counts=counts)] == [
        (1, "a"),
        (4, "d"),
    ]
    assert counts == ReadCounts(read=4, replaced=0, skipped=2)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    whole = gzip.compress(b"hello\n" * 1000)
    cases = {
        "cut.gz": whole[:-9],
        "empty.gz": b"",
        "plain.gz": b"not gzip at all\n",
        "damaged.gz": whole[:20] + bytes([whole[20] ^ 255]) + whole[21:],
    }
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=name):
            texts(tmp_path / name)
    with pytest.raises(DataError, match="No such file"):
        texts(tmp_path / "missing.txt")
    with pytest.raises(DataError, match="not a file of text"):
        texts(tmp_path)


def test_a_pipe_is_read_again_and_again(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = "猫\nb\n".encode() * 20_000
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    assert lines.file_hash(pipe) == hashlib.sha256(data).hexdigest()
    writer.join()
    assert is_stream(pipe)
    assert not is_stream(tmp_path)
    assert lines.count_lines(pipe) == len(texts(pipe)) == 40_000
    assert texts(pipe)[:2] == ["猫", "b"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed_files_are_read_by_their_names(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    def put(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    whole = pack("猫\n".encode() * 1000)
    assert texts(put(f"a{suffix}", whole)) == ["猫"] * 1000
    for data in (b"", whole[: len(whole) // 2], b"not compressed\n"):
        with pytest.raises(DataError, match="damaged or cut short"):
            texts(put(f"b{suffix}", data))
    with pytest.raises(DataError, match=f"let the name of a file end in {suffix}"):
        texts(put("plain", whole))


def test_bytes_of_a_compressed_file_are_no_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(gzip.compress(b"cat", mtime=0x0D0D0D0D))
    with pytest.raises(DataError, match=r"let the name of a file end in \.gz"):
        texts(path)


def test_zstandard_is_read_or_asked_for(tmp_path: Path) -> None:
    if importlib.util.find_spec("zstandard") is None:
        with pytest.raises(DataError, match="needs the package zstandard"):
            texts(write(tmp_path / "a.zst", b"x"))
    else:
        zstandard = importlib.import_module("zstandard")
        assert texts(write(tmp_path / "a.zst", zstandard.compress(b"a\nb\n"))) == ["a", "b"]


def test_line_ends_of_old_macs_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lines end in CR alone"):
        texts(write(tmp_path / "mac", b"a\rb\rc\r"))
    assert texts(write(tmp_path / "one", b"a\rb")) == ["a\rb"]
    assert texts(write(tmp_path / "ended", b"a\rb\rc\n")) == ["a\rb\rc"]
    assert texts(write(tmp_path / "two", b"a\rb\rc\nd\n")) == ["a\rb\rc", "d"]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    for end in (b"", b"\n", b"\r\n"):
        assert texts(write(tmp_path / "a.txt", b"\xef\xbb\xbf" + b"x" * 100 + end)) == ["x" * 100]
        with pytest.raises(DataError, match="line 2: the line is too long"):
            texts(write(tmp_path / "b.txt", b"ok\n" + b"x" * 101 + end))
    with pytest.raises(DataError, match="too long"):
        texts(write(tmp_path / "c.txt", b"\xef\xbb\xbf" + b"\r" * 150))


def test_streams_follow_the_same_rules() -> None:
    stream = io.BytesIO(b"a\r\n\nb\xff")
    found = [line.text for line in scan_stream(stream, "<stdin>", on_bad_text="replace")]
    assert found == ["a", "", "b\ufffd"]
    with pytest.raises(DataError, match="<stdin>, line 1, byte 0"):
        list(scan_stream(io.BytesIO(b"\xff"), "<stdin>"))


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"first\n\xff\n")
    assert next(read_lines(path)).text == "first"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_lines_are_counted_across_blocks(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK", size)
    for data, count in ((b"a\n\nbc\n", 3), (b"a\n\nbc", 3), (b"\n\n\n", 3), (b"abcdef", 1)):
        assert count_lines(write(tmp_path / "a.gz", data)) == count


def test_file_hash_is_what_sha256sum_prints(tmp_path: Path) -> None:
    assert file_hash(write(tmp_path / "a", b"abc")) == hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(DataError):
        file_hash(tmp_path / "missing")
