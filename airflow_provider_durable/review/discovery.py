"""Which files a run looks at: Python files below the given paths, once each."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Folders that hold no Dags of the team's own; matched by name, at any depth.
DEFAULT_EXCLUDE = (
    "__pycache__",
    "node_modules",
    "site-packages",
    "venv",
    "__pypackages__",
    "*.egg-info",
    ".*",
)


def find(paths: Sequence[Path], exclude: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The files to review, each with the path to show for it.

    A file that is named itself is reviewed whatever it is called; in a folder, files that end in ``.py``
    are. Patterns match a file's or folder's name, or its path. Every file comes once, symbolic links
    that lead in circles included.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path.is_dir():
            found = _walk(path, exclude, seen)
        else:
            found = iter(() if excluded(path, exclude) else (path,))
        for file in found:
            identity = _identity(file)
            if identity is not None and identity in seen:
                continue
            if identity is not None:
                seen.add(identity)
            yield file, file.as_posix()


def excluded(path: Path, patterns: Sequence[str]) -> bool:
    """Whether a pattern names a path, its last part, or a folder it lies in."""
    text = path.as_posix()
    for pattern in patterns:
        clean = pattern.removesuffix("/**").removesuffix("/")
        if fnmatch(path.name, clean) or fnmatch(text, clean) or fnmatch(text, f"*/{clean}"):
            return True
        if fnmatch(text, f"{clean}/*") or fnmatch(text, f"*/{clean}/*"):
            return True
    return False


def _walk(root: Path, exclude: Sequence[str], seen: set[tuple[int, int]]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, followlinks=True):
        here = Path(folder)
        identity = _identity(here)
        if identity is None or identity in seen:
            # A symbolic link that leads back up, or a second way to the same folder.
            folders.clear()
            continue
        seen.add(identity)
        folders[:] = sorted(
            name
            for name in folders
            if not any(fnmatch(name, pattern) for pattern in DEFAULT_EXCLUDE)
            and not excluded(here / name, exclude)
        )
        for name in sorted(files):
            if name.endswith(".py") and not excluded(here / name, exclude):
                yield here / name


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
