"""The set-up chooses the right build of PyTorch, and says what to do when it cannot."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_environment", SCRIPTS / "setup_environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("environ", "system", "gpu", "online", "cpu_only", "index"),
    [
        ({}, "Linux", False, True, True, "CPU"),
        ({}, "Linux", False, False, True, None),
        ({}, "Linux", True, True, False, None),
        ({}, "Darwin", False, True, False, None),
        ({"DRAGOMAN_TORCH": "cpu"}, "Linux", True, True, True, "CPU"),
        ({"DRAGOMAN_TORCH": "cuda"}, "Linux", False, True, False, None),
        ({"DRAGOMAN_TORCH_INDEX": "mine"}, "Linux", False, False, True, "mine"),
        ({"DRAGOMAN_TORCH_INDEX": "mine"}, "Linux", True, False, False, "mine"),
        ({"DRAGOMAN_TORCH_INDEX": ""}, "Linux", False, True, True, None),
    ],
)
def test_the_plan_fits_the_machine(
    setup: ModuleType,
    environ: dict[str, str],
    system: str,
    gpu: bool,
    online: bool,
    cpu_only: bool,
    index: str | None,
) -> None:
    expected = setup.TORCH_CPU_INDEX if index == "CPU" else index
    assert setup.make_plan(environ, system, lambda: gpu, lambda _: online) == (cpu_only, expected)


def test_an_unknown_build_is_refused(setup: ModuleType) -> None:
    with pytest.raises(SystemExit, match="auto, cpu or cuda"):
        setup.make_plan({"DRAGOMAN_TORCH": "gpu"}, "Linux", lambda: False, lambda _: False)


def test_cuda_packages_are_refused_with_what_to_do(setup: ModuleType) -> None:
    names = ["filelock", "cuda-bindings", "nvidia-cublas", "nvidia_cudnn_cu13", "pytorch-triton", "torch", "triton"]
    report = {"install": [{"metadata": {"name": name}} for name in reversed(names)]}
    message = setup.refusal(setup.package_names(report), setup.Plan(True, None))
    assert "5 of them: cuda-bindings" in message
    assert "DRAGOMAN_TORCH_INDEX=URL" in message


def test_a_cpu_resolution_passes(setup: ModuleType) -> None:
    assert setup.refusal(["torch", "numpy", "tritonclient", "sentencepiece"], setup.Plan(True, None)) is None


def test_a_gpu_is_there_if_its_driver_answers(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not setup.has_nvidia_gpu()
    for status, answers in [(9, False), (0, True)]:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
        (tmp_path / "nvidia-smi").chmod(0o755)
        assert setup.has_nvidia_gpu() is answers


class _Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/whl/torch/" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def local_index() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Index) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_index_is_reachable_if_it_has_pytorch(
    setup: ModuleType, local_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert setup.reachable(f"{local_index}/whl")
    assert not setup.reachable(f"{local_index}/other")
    assert not setup.reachable("no address")


def test_a_silent_index_is_given_up_soon(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert not setup.reachable(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.2)
        assert time.monotonic() - start < 5


def _fake_python(folder: Path, name: str, status: int) -> None:
    # Asked for its version, it ends with the given status; asked to run the script, it says its name.
    script = f'#!/bin/sh\n[ "$1" = -c ] && exit {status}\necho {name} "$2"\n'
    (folder / name).write_text(script, encoding="utf-8")
    (folder / name).chmod(0o755)


def _find_python(folder: Path, python: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "PYTHON": python}
    command = ["/bin/sh", str(SCRIPTS / "setup_environment.sh"), "dev"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_the_first_python_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    for name, status in [("python3.13", 1), ("python3.12", 0), ("python3.11", 0), ("python3", 0)]:
        _fake_python(tmp_path, name, status)
    assert _find_python(tmp_path).stdout == "python3.12 dev\n"
    assert _find_python(tmp_path, "python3").stdout == "python3 dev\n"


def test_without_a_usable_python_it_says_what_to_do(tmp_path: Path) -> None:
    for name in ("python3.13", "python3.12", "python3.11", "python3"):
        _fake_python(tmp_path, name, 1)
    found = _find_python(tmp_path)
    assert found.returncode == 1
    assert "Python 3.11 or newer" in found.stderr
    assert found.stdout == ""
