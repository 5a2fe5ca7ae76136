"""Files of a page, each answered with a policy that lets nothing else in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi.responses import FileResponse, Response

from dragoman.serving.faults import RequestError

INSPECTOR = Path(__file__).parents[1] / "inspector" / "page"
TRANSLATION = Path(__file__).parent / "page"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


def page_files(*paths: Path) -> Callable[[str], Response]:
    """Return what answers with a file of a page by its name.

    Args:
        paths: files, and folders of files.
    """
    every = [file for path in paths for file in (path.glob("*.*") if path.is_dir() else [path])]
    files = {file.name: file for file in every if file.suffix in MEDIA_TYPES}

    def answer(name: str) -> Response:
        if name not in files:
            raise RequestError(404, "no_file", "there is no such file")
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        return FileResponse(files[name], media_type=MEDIA_TYPES[files[name].suffix], headers=headers)

    return answer
