"""Files: written completely or not at all, the folders of data, and named arrays with a description in safetensors files.

The description is JSON text in the header of the file. A SHA-256 digest covers the description and the arrays, so a
damaged or altered file is detected. Nothing in a file is executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from deepfls._checks.values import Array

_Value = TypeVar("_Value")


class ModelFileError(ValueError):
    """A file that is not a readable model of this or an earlier version."""


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path whose first part ~ is the home folder of the user."""
    path = Path(path)
    if path.parts[:1] != ("~",):  # ~notes is the name of a file
        return path
    return Path(os.path.expanduser(path))  # noqa: PTH111  # of a user without a home folder the path stays as it is


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder, which takes the name of the file if the block ends without an error."""
    path = user_path(path)
    if path.exists() and not path.is_file():  # a device such as /dev/null would be replaced
        raise IsADirectoryError(f"path must be a file, got the {'folder' if path.is_dir() else 'device'} {str(path)!r}.")
    # Not tempfile: its files are readable by their owner only, and this file gets the permissions of any new file.
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
            error.filename = str(path)  # the name that the user gave; an error of writing, such as a full disk, has none
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step: a temporary file in the same folder, flushed to disk, then renamed.

    A crash at any moment leaves the old file or the new one.
    """
    with replaced_file(path) as temporary, temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def cache_folder() -> Path:
    """The folder for downloads and copies: ``DEEPFLS_CACHE``, or else ``deepfls`` in the cache folder of the system."""
    import platformdirs

    chosen = os.environ.get("DEEPFLS_CACHE", "")
    try:
        return Path(chosen or platformdirs.user_cache_dir("deepfls", appauthor=False, opinion=False)).expanduser()
    except RuntimeError as error:
        raise RuntimeError("DEEPFLS_CACHE must name a folder for a user without a home folder, got none.") from error


def search_folders(data_dir: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Folders to search for the files of a named set: ``data_dir`` or else ``DEEPFLS_DATA``, then the cache."""
    origin, given = ("DEEPFLS_DATA", os.environ.get("DEEPFLS_DATA", "")) if data_dir is None else ("data_dir", data_dir)
    if data_dir is not None or given:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise NotADirectoryError(f"{origin} must be an existing folder, got {str(folder)!r}.")
        yield folder
    yield cache_folder()


@dataclass(frozen=True)
class ArrayFormat:
    """A format of safetensors files with a description and a digest in the header.

    Examples
    --------
    >>> import numpy as np
    >>> notes = ArrayFormat("notes", 1, "note", ValueError)
    >>> notes.unpacked(notes.packed({"title": "zeros"}, {"x": np.zeros(2)}), "note")
    ({'title': 'zeros'}, {'x': array([0., 0.])})
    """

    name: str  # stored in the header
    version: int  # that is written, and the newest that is read
    noun: str  # what messages call such a file: "model", "checkpoint"
    error: type[ValueError]  # raised for content that cannot be read
    oldest: int = 1  # version that is read

    def packed(self, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
        """A description and named arrays as the content of a file."""
        from safetensors.numpy import save  # here: keeps `import deepfls` light

        # Not ascontiguousarray: it turns a scalar into a vector of length 1.
        copies = {name: np.array(value, order="C") for name, value in arrays.items()}
        text = json.dumps(dict(description), sort_keys=True, allow_nan=False)
        metadata = {"format": self.name, "version": str(self.version), "description": text, "sha256": digest(text, copies)}
        return bytes(save(copies, metadata))

    def unpacked(self, content: bytes, path: object) -> tuple[dict[str, Any], dict[str, Array]]:
        """Description and arrays, after all checks; ``path`` is named in the messages."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        label = repr(str(path))
        try:
            arrays = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise self.error(f"{label} is not a deepfls {self.noun}, or it is truncated ({error}).") from error
        metadata = header.get("__metadata__") or {}
        if metadata.get("format") != self.name:
            raise self.error(f"{label} is a safetensors file, but not a deepfls {self.noun}.")
        version = metadata.get("version", "")
        if not re.fullmatch("[0-9]{1,9}", version):
            raise self.error(f"{label} is damaged: its format version is {version!r}.")
        if int(version) > self.version:
            raise self.error(
                f"{label} has format version {version}, newer than {self.version}, the newest this version of deepfls "
                "reads: install a newer deepfls."
            )
        if int(version) < self.oldest:
            raise self.error(f"{label} has format version {version}, which this version of deepfls no longer reads.")
        text = metadata.get("description", "")
        try:
            description = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise self.error(f"{label} is damaged: its description is not JSON.") from error
        if metadata.get("sha256") != digest(text, arrays) or not isinstance(description, dict):
            raise self.error(f"{label} is damaged or was altered: its content does not match its digest.")
        return description, arrays


MODEL = ArrayFormat("deepfls", 1, "model", ModelFileError)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Description and arrays of a model file, after all checks."""
    path = user_path(path)
    if path.is_dir():
        raise IsADirectoryError(f"model file must be a file, got the folder {str(path)!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"model file must exist, got {str(path)!r}.")
    return MODEL.unpacked(path.read_bytes(), path)


def arrays_under(prefix: str, arrays: Mapping[str, _Value]) -> dict[str, _Value]:
    """The arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def digest(text: str, arrays: Mapping[str, Array]) -> str:
    """SHA-256 over a description and named arrays with their types and shapes."""
    hashed = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        hashed.update(f"{name} {value.dtype.str} {value.shape} ".encode())
        hashed.update(value.tobytes())
    return hashed.hexdigest()
