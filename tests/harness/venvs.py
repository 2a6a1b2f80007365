"""A virtual environment for each stand-in, made once from a pinned list in requirements/.

Stand-ins are never installed beside Airflow: their pins differ. The environments live in ``.venvs/`` at
the root of the repository (or in the folder that HARNESS_VENVS names) and are made anew when a list changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from filelock import FileLock

REQUIREMENTS = Path(__file__).parent / "requirements"
VENVS_VARIABLE = "HARNESS_VENVS"


def venvs_folder() -> Path:
    """Where the environments are kept."""
    return Path(os.environ.get(VENVS_VARIABLE) or Path(__file__).parents[2] / ".venvs")


def python_of(name: str) -> str:
    """The Python of the environment for ``requirements/<name>.txt``, made first if it is not there yet.

    Safe to call from several processes at once; only the first one installs.

    :raises RuntimeError: if the packages cannot be installed, with the installer's last lines.
    """
    pins = REQUIREMENTS / f"{name}.txt"
    folder = venvs_folder() / name
    python = folder / "bin" / "python"
    stamp = folder / ".made-from"
    wanted = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, python, pins)
            stamp.write_text(wanted)
    return str(python)


def _uv() -> list[str] | None:
    """The uv of the running environment, or of the PATH."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    return [found] if found else None


def _install(folder: Path, python: Path, pins: Path) -> None:
    if uv := _uv():
        _run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
        _run(
            [
                *uv,
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--compile-bytecode",
                "--python",
                str(python),
                "-r",
                str(pins),
            ]
        )
        return
    venv.create(folder, with_pip=True)
    _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(pins)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-3000:]}")
