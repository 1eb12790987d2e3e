"""Files of named data sets with made numbers: the columns of the set, few rows."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import openpyxl

from deepfls.data.datasets import DATASETS, Dataset

Array = np.ndarray[Any, Any]
N_ROWS = 20


def made_table(name: str, seed: int = 0) -> Array:
    return np.round(np.random.default_rng(seed).normal(50, 20, (N_ROWS, len(DATASETS[name].columns))), 3)


def as_csv(name: str, table: Array) -> bytes:
    lines = [",".join(DATASETS[name].columns), *(",".join(map(repr, row)) for row in table.tolist())]
    return "\n".join([*lines, ""]).encode()


def as_housing(name: str, table: Array) -> bytes:
    return "".join(" " + "  ".join(map(repr, row)) + "\n" for row in table.tolist()).encode()


def as_xlsx(name: str, table: Array, change: Callable[[openpyxl.Workbook], None] = lambda book: None) -> bytes:
    book = openpyxl.Workbook()
    for row in [list(DATASETS[name].columns), *table.tolist()]:
        book.worksheets[0].append(row)
    book.create_sheet("another sheet").append(["text"])
    change(book)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def as_zip(name: str, table: Array) -> bytes:
    return archive({"CCPP/Readme.txt": b"about the data", "CCPP/Folds5x2_pp.xlsx": as_xlsx(name, table)})


def archive(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return stream.getvalue()


def joined(data: Dataset) -> Array:
    return np.column_stack([data.x, data.y])
