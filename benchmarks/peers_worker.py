"""One who is measured, in a process of its own: obeys a line of JSON at a time and times itself.

A request names a method of the peer and its arguments; the reply holds the result, the time on the wall and on the
processor, and the memory at its peak. Written for every environment: imports nothing of the toolkit.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

PEERS = {
    "dragoman": "peers_dragoman", "ctranslate2": "peers_ctranslate2", "marian": "peers_marian", "probe": "peers_limits",
    "onnxruntime": "peers_runtimes", "openvino": "peers_runtimes",
}  # fmt: skip
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def obey(peer: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Call the method and say what it took; Linux tells the memory."""
    if RESET.exists():
        RESET.write_text("5")
    wall, processor = time.perf_counter(), time.process_time()
    result = getattr(peer, request["method"])(*request["arguments"])
    took = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return {"result": result, **took, "peak_mib": _peak()}


def _peak() -> int | None:
    if not STATUS.exists():
        return None
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(round(int(line.split()[1]) / 1024) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    kind, options = sys.argv[1], json.loads(sys.argv[2])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    peer: Any = None
    for line in sys.stdin:
        try:
            if peer is None:
                peer = importlib.import_module(PEERS[kind]).Peer({**options, "kind": kind})
            reply = obey(peer, json.loads(line))
        except Exception as error:  # told to the one who asked, whatever it is
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
