"""Compiles the native engine when the package is installed, if there is a C++ compiler; without one all else works."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path("src") / "dragoman" / "engines" / "native" / "build.py"


class NativeBuildHook(BuildHookInterface):
    """Puts the compiled library beside its sources; DRAGOMAN_NO_NATIVE=1 does without."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell the wheel that it is for one platform."""
        if self.target_name != "wheel" or os.environ.get("DRAGOMAN_NO_NATIVE"):
            return
        build = _load(Path(self.root) / BUILD)
        try:
            library = build.build()
        except build.BuildError as error:
            self.app.display_warning(f"Without the native engine: {error}")
            return
        build_data["artifacts"].append(library.relative_to(self.root).as_posix())
        if version != "editable":
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def _load(path: Path) -> ModuleType:
    """The module at a path, of a package that is not installed yet."""
    spec = importlib.util.spec_from_file_location("dragoman_native_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
