"""Compiles the native engine when the package is built, if there is a C++ compiler; without one all else works."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import mac_platforms, platform_tags  # what hatchling itself needs

BUILD = Path("src") / "dragoman" / "engines" / "native" / "build.py"


class NativeBuildHook(BuildHookInterface):
    """Puts the compiled library beside its sources; DRAGOMAN_NO_NATIVE=1 does without."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell the wheel that it is for one platform, and for any Python 3: ctypes loads the library."""
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
            build_data["tag"] = f"py3-none-{platform_tag()}"


def platform_tag() -> str:
    """Return the platform that the compiler of this machine compiles for, as wheels name it.

    On Linux `manylinux` is not for the compiler to promise: auditwheel gives that name after it has looked.
    """
    if sys.platform == "darwin":
        # The oldest system that the compiler was told to care for, or this one.
        oldest = os.environ.get("MACOSX_DEPLOYMENT_TARGET") or platform.mac_ver()[0]
        major, minor = [*oldest.split("."), "0"][:2]
        return next(mac_platforms((int(major), int(minor))))
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))


def _load(path: Path) -> ModuleType:
    """The module at a path, of a package that is not installed yet."""
    spec = importlib.util.spec_from_file_location("dragoman_native_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
