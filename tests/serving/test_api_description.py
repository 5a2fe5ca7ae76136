"""Whatever is sent, the answer is one that the description of the interfaces knows, and no fault of the service."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from served import Served

CASES = 35  # of each path that takes a body
SOUNDS = ("POST /v1/transcribe", "POST /v1/audio/transcriptions")


def operations(service: Served) -> list:
    schema = schemathesis.openapi.from_url(f"{service.address}/openapi.json")
    return [one.ok() for one in schema.get_all_operations()]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_is_a_fault(service: Served, hearing: Served, mode: GenerationMode) -> None:
    known = {operation.label for operation in operations(service)}
    assert {"POST /v1/translate", "POST /translate", "POST /v1/translate/stream", *SOUNDS} <= known
    asked = [one for one in operations(service) if one.label not in SOUNDS]
    asked += [one for one in operations(hearing) if one.label in SOUNDS]
    for operation in asked:
        most = CASES if operation.body else 5
        if mode is GenerationMode.NEGATIVE:
            most = CASES // 2
            if not operation.body:  # there is nothing that could be wrong
                continue

        @settings(
            max_examples=most, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case) -> None:
            try:
                answer = case.call(timeout=60)
            except (httpx.LocalProtocolError, UnicodeError):  # what cannot be sent
                return
            assert answer.status_code < 500 or answer.status_code in (503, 504), (case.as_curl_command(), answer.text)
            if answer.status_code == 503:
                assert "failed" not in answer.text, (case.as_curl_command(), answer.text)
            if answer.status_code >= 400:
                assert answer.headers["content-type"][0].startswith("application/json"), answer.text
                assert "Traceback" not in answer.text
                assert "/src/" not in answer.text

        check()
