"""The examples of clusters on the page of many processes: a shell reads them, and so does Kubernetes' format."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

PAGES = {language: Path(__file__).parents[2] / "docs" / language / "many.md" for language in ("en", "zh")}


def fences(language: str, kind: str) -> list[str]:
    return re.findall(rf"^~~~{kind}\n(.*?)^~~~$", PAGES[language].read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def is_shell(script: str) -> bool:
    return subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize("language", PAGES)
def test_the_slurm_script_is_one(language: str) -> None:
    [script] = [one for one in fences(language, "sh") if "#SBATCH" in one]
    assert is_shell(script)
    assert script.startswith("#!/bin/bash\n#SBATCH")
    assert "-m dragoman train" in script


@pytest.mark.parametrize("language", PAGES)
def test_the_kubernetes_job_is_one(language: str) -> None:
    [text] = [one for one in fences(language, "text") if "kind: Job\n" in one]
    service, job = yaml.safe_load_all(text)
    pods: dict[str, Any] = job["spec"]["template"]["spec"]
    [container] = pods["containers"]
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    # The first pod's name is that of the job with its number, under the service's.
    assert pods["subdomain"] == service["metadata"]["name"]
    assert f"{job['metadata']['name']}-0.{service['metadata']['name']}:" in container["args"][0]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert f"--nnodes {job['spec']['completions']} " in container["args"][0]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pods["volumes"]}
    assert is_shell(container["args"][0])
