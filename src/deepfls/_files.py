"""Model files: one safetensors file, whose header carries a JSON description. Nothing in a file is ever executed.

The description holds the format version and everything that is not a tensor; a digest over description and tensors tells an
altered file from a whole one. Files are written beside their place and renamed, so a crash leaves the old file as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

FORMAT = "deepfls"
VERSION = 1


class ModelFileError(ValueError):
    """A file that is not a readable model of this or an earlier version."""


def write_model(path: str | os.PathLike[str], description: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Write a model file whole or not at all."""
    from safetensors.numpy import save  # here: keeps `import deepfls` light

    text = json.dumps(description, sort_keys=True, allow_nan=False)
    metadata = {"format": FORMAT, "version": str(VERSION), "description": text, "sha256": digest(text, tensors)}
    write_whole(Path(path), save({name: np.ascontiguousarray(value) for name, value in tensors.items()}, metadata))


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file's content in one step: a temporary file in the same folder, flushed to disk, then renamed."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    # Not tempfile's: its files only their owner can read, and a model gets the permissions of any new file.
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and tensors of a model file, after checking that it is one and that it is whole."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"model file must be a file, got the folder {str(path)!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"model file must exist, got {str(path)!r}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ModelFileError(f"{str(path)!r} is a safetensors file, but not a deepfls model.")
            version = metadata.get("version", "")
            if not re.fullmatch("[0-9]{1,9}", version):
                raise ModelFileError(f"{str(path)!r} is damaged: its format version is {version!r}.")
            if int(version) > VERSION:
                raise ModelFileError(
                    f"{str(path)!r} has format version {version}, newer than {VERSION}, the newest this version of deepfls "
                    "reads: install a newer deepfls."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dictionary
        text = metadata.get("description", "")
        description = json.loads(text)
    except SafetensorError as error:
        raise ModelFileError(f"{str(path)!r} is not a deepfls model, or it is truncated ({error}).") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise ModelFileError(f"{str(path)!r} is damaged: its description is not JSON.") from error
    if metadata.get("sha256") != digest(text, tensors) or not isinstance(description, dict):
        raise ModelFileError(f"{str(path)!r} is damaged or was altered: its content does not match its digest.")
    return description, tensors


def digest(text: str, tensors: dict[str, Array]) -> str:
    """SHA-256 over a description and named arrays with their types and shapes."""
    hashed = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = np.ascontiguousarray(tensors[name])
        hashed.update(f"{name} {value.dtype.str} {value.shape} ".encode())
        hashed.update(value.tobytes())
    return hashed.hexdigest()
