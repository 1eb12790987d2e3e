"""Small ugly tables, as people have them, with what a training on each is to say."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import openpyxl

N = 40
_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=(N, 3)).round(3)
Y = (X @ [1.0, -2.0, 0.5] + 10.0).round(3)
COLOURS = np.resize(["red", "blue", "green", "blue"], N)


@dataclass(frozen=True)
class Ugly:
    """A CSV file, what is told about it, and the command that a refusal leads to."""

    content: bytes
    told: tuple[str, ...] = ()  # parts of the warnings, in their order
    options: tuple[str, ...] = ()  # beside --target y
    refused: str = ""  # part of the error
    then: tuple[str, ...] = ()  # options that the error names, with which the command works
    told_then: tuple[str, ...] | None = None  # what is told then, where it is not what was told at first
    inputs: int | None = None  # of the model
    classes: bool = False
    file: str = "t.csv"


def text(header: str, *columns: Sequence[Any], mark: str = ",", encoding: str = "utf-8", end: str = "\n") -> bytes:
    """A CSV file of some columns and the target."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=mark, lineterminator=end)
    writer.writerow(header.split())
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue().encode(encoding)


def aligned(header: str, *values: Sequence[Any]) -> bytes:
    """A table with columns of equal width, separated by blanks."""
    rows = [header.split(), *zip(*values, strict=True)]
    return "".join("".join(f"{cell!s:>10}" for cell in row) + "\n" for row in rows).encode()


def workbook(header: list[str | None], rows: Iterable[Sequence[Any]], *above: str, cover: str = "") -> bytes:
    """An Excel file with lines above the header, and a sheet with a text before the table."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    if cover:
        sheet.append([cover])
        sheet = book.create_sheet("data")
    for line in above:
        sheet.append([line])
    sheet.append(header)
    for row in rows:
        sheet.append([value.item() if isinstance(value, np.datetime64) else value for value in row])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def commas(values: Any, form: str = "{:.3f}") -> list[str]:
    return [form.format(value).translate(str.maketrans(",.", ".,")) for value in values]


def holes(values: Any, nothing: str, every: int = 7) -> list[Any]:
    return [nothing if place % every == 3 else value for place, value in enumerate(values)]


def each(form: Callable[[float], str], values: Any = Y) -> list[str]:
    return [form(float(value)) for value in values]


A, B, C = X.T
LABELS = np.where(A > 0, "up", "down")
DATES = [np.datetime64("2023-11-01") + 17 * place for place in range(N)]
ZOO: dict[str, Ugly] = {
    "clean": Ugly(text("a b c y", A, B, C, Y), inputs=3),
    "empty cells": Ugly(text("a b y", holes(A, ""), B, Y)),
    "NA": Ugly(text("a b y", holes(A, "NA"), B, Y)),
    "question marks": Ugly(text("a b y", holes(A, "?"), B, Y)),
    "dashes": Ugly(text("a b y", holes(A, "-"), B, Y)),
    "dots and n/a": Ugly(text("a b y", holes(A, "."), holes(B, "n/a"), Y)),
    "-999 named as missing": Ugly(text("a b y", holes(A, "-999"), B, Y), options=("--missing-values", "-999")),
    "text": Ugly(text("colour a y", COLOURS, A, Y), inputs=4),
    "text with holes": Ugly(text("colour a y", holes(COLOURS, ""), holes(A, "NA"), Y), inputs=4),
    "text with blanks around it": Ugly(text("colour a y", [f" {c} " for c in COLOURS], A, Y), inputs=4),
    "true and false": Ugly(text("flag a y", ["true", "false"] * (N // 2), A, Y), inputs=2),
    "yes and no": Ugly(text("flag a y", ["yes", "no"] * (N // 2), A, Y), inputs=2),
    "categories of numbers": Ugly(text("code a y", np.arange(N) % 4, A, Y), options=("--categorical", "code"), inputs=5),
    "rare categories": Ugly(text("c a y", ["x"] * 20 + ["z"] * 16 + ["p", "q", "r", "s"], A, Y), inputs=4),
    "identifier": Ugly(text("name a y", [f"row {k}" for k in range(N)], A, Y), ("as identifiers have",), inputs=1),
    "identifier alone": Ugly(
        text("name y", [f"row {k}" for k in range(N)], Y), refused="left out", then=("--categorical", "name")
    ),
    "decimal commas": Ugly(text("a b y", commas(A), commas(B), commas(Y), mark=";"), ("'y'", "decimal commas")),
    "decimal commas in quotes": Ugly(text("a b y", commas(A), B, Y), ("Column 'a' is read as numbers with decimal",)),
    "thousands": Ugly(text("a b y", each("{:,.1f}".format, 1e4 * A), B, Y), ("separators of thousands",)),
    "points for thousands": Ugly(text("a b y", commas(1e4 * A, "{:,.1f}"), B, Y), ("decimal commas and separators",)),
    "thousands or decimals": Ugly(
        text("a b y", [f"{k},{k + 200}" for k in range(1, N + 1)], B, Y), ("--decimal , reads decimal commas",)
    ),
    "decimals decided": Ugly(
        text("a b y", [f"{k},{k + 200}" for k in range(1, N + 1)], B, Y), ("decimal commas",), ("--decimal", ",")
    ),
    "percent": Ugly(text("a b y", each("{:.0f}%".format, 100 * A), B, Y), ("percent signs",)),
    "dollars": Ugly(text("a b y", each("${:,.2f}".format, abs(900 * A)), B, Y), ("currencies",)),
    "euros behind": Ugly(text("a b y", [f"{t} €" for t in commas(A, "{:.2f}")], B, Y), ("decimal commas and currencies",)),
    "target with percent": Ugly(text("a b y", A, B, each("{:.1f}%".format)), ("Column 'y' is read as numbers with",)),
    "a word among numbers": Ugly(text("a b y", ["broken", *A[1:]], B, Y), ("'broken' among its numbers",), inputs=2),
    "ISO dates": Ugly(text("day a y", DATES, A, Y), inputs=4),
    "German dates": Ugly(text("day a y", [f"{d:%d.%m.%Y}" for d in np.array(DATES).astype(object)], A, Y), inputs=4),
    "American dates": Ugly(text("day a y", [f"{d:%m/%d/%Y}" for d in np.array(DATES).astype(object)], A, Y), inputs=4),
    "times": Ugly(text("at a y", [f"2024-01-{k // 24 + 1:02d} {k % 24:02d}:30:00" for k in range(N)], A, Y), inputs=4),
    "wild input": Ugly(text("a b y", [1e6, *A[1:]], B, Y), ("1 value of 'a' is far beyond all others",)),
    "wild target": Ugly(text("a b y", A, B, [-1e9, *Y[1:]]), ("1 value of 'y' is far beyond all others",)),
    "infinity": Ugly(text("a b y", ["inf", *A[1:]], B, Y), refused="got inf", then=("--missing-values", "inf")),
    "constant column": Ugly(text("a b y", A, [5] * N, Y), ("Column 'b' has the same value",), inputs=1),
    "empty column": Ugly(text("a b y", A, [""] * N, Y), ("Column 'b' has no values",), inputs=1),
    "repeated column": Ugly(text("a b y", A, A, Y), ("Column 'b' repeats column 'a'",), inputs=1),
    "constant target": Ugly(text("a y", A, [3] * N), ("The target is 3 in every row",)),
    "one class": Ugly(text("a y", A, ["up"] * N), ("The target has one class",), classes=True),
    "zeros and ones": Ugly(text("a b y", A, B, np.arange(N) % 2), ("--task classification",)),
    "few whole numbers": Ugly(text("a b y", A, B, np.arange(N) % 4), ("--task classification",)),
    "classes of numbers": Ugly(
        text("a b y", A, B, np.arange(N) % 3), options=("--task", "classification"), classes=True
    ),
    "classes": Ugly(text("a b y", A, B, LABELS), classes=True),
    "classes with holes": Ugly(text("a y", A, holes(LABELS, "")), ("without a target",), classes=True),
    "target with holes": Ugly(text("a b y", A, B, holes(Y, "")), ("6 rows without a target are left out",)),
    "target with one hole": Ugly(text("a b y", A, B, ["NA", *Y[1:]]), ("1 row without a target is left out",)),
    "target with holes refused": Ugly(
        text("a b y", A, B, holes(Y, "")),
        ("6 rows",),
        ("--nulls", "error"),
        refused="--nulls drop",
        then=("--nulls", "drop"),
    ),
    "one row": Ugly(text("a b y", A[:1], B[:1], Y[:1]), ("The table has 1 row", "the model has 1 rule")),
    "fewer rows than rules": Ugly(text("a y", A[:5], Y[:5]), ("the model has 5 rules",), ("--n-rules", "9")),
    "row index": Ugly(b"," + text("i a b y", range(N), A, B, Y)[2:], ("without a name is left out",), inputs=2),
    "names twice": Ugly(text("a a y", A, B, Y), ("the later ones are called 'a_2'",), inputs=2),
    "Windows text": Ugly(text("größe y", A, Y, encoding="cp1252"), ("is read as Windows-1252",)),
    "UTF-16": Ugly(text("größe y", A, Y, encoding="utf-16")),
    "byte-order mark": Ugly(text("a y", A, Y, encoding="utf-8-sig")),
    "semicolons": Ugly(text("a b y", A, B, Y, mark=";")),
    "bars": Ugly(text("a b y", A, B, Y, mark="|")),
    "Windows line ends": Ugly(text("a b y", A, B, Y, end="\r\n")),
    "commas in quotes": Ugly(text("note a y", np.resize(["yes, sure", "no"], N), A, Y), inputs=2),
    "UTF-16 without a mark": Ugly(text("größe y", A, Y, encoding="utf-16-le")),
    "UTF-32": Ugly(text("a y", A, Y, encoding="utf-32")),
    "Mac line ends": Ugly(text("a b y", A, B, Y, end="\r")),
    "blanks": Ugly(text("a b y", A, B, Y, mark=" "), file="t.txt"),
    "blanks in line": Ugly(aligned("a y", A, Y), file="t.data"),
    "tabs": Ugly(text("a b y", A, B, Y, mark="\t"), file="t.tsv"),
    "compressed": Ugly(gzip.compress(text("a b y", A, B, Y)), file="t.csv.gz"),
    "workbook": Ugly(workbook(["a", "day", "y"], zip(A.tolist(), DATES, Y.tolist(), strict=True)), file="t.xlsx", inputs=4),
    "title": Ugly(b"Report of May\n\n" + text("a b y", A, B, Y), ("The first line of 't.csv' is left out",)),
    "comments": Ugly(b"# made by hand\n# in m\n" + text("a b y", A, B, Y), ("The first 2 lines of 't.csv' are left",)),
    "header as a comment": Ugly(b"# " + text("a b y", A, B, Y), inputs=2),
    "blanks around names": Ugly(text("a b y", A, B, Y).replace(b"a,b,y", b" a , b , y "), inputs=2),
    "commas at the end of rows": Ugly(text("a b y", A, B, Y).replace(b"\n", b",\n").replace(b"y,\n", b"y\n"), inputs=2),
    "commas at the end": Ugly(text("a b y", A, B, Y).replace(b"\n", b",\n"), inputs=2),
    "names of rows": Ugly(text("r a b y", [f"r{k}" for k in range(N)], A, B, Y)[2:], ("give it a name",), inputs=2),
    "no header": Ugly(
        text("a b y", A, B, Y)[6:],
        ("its columns are called 'column_1' to 'column_3'",),
        refused="'column_3'",
        then=("--target", "column_3"),
    ),
    "years as names": Ugly(text("2001 2002 y", A, B, Y), inputs=2),
    "a word in the target": Ugly(text("a b y", A, B, ["kg", *Y[1:]]), ("'kg' among its numbers", "1 row without a target")),
    "infinite target": Ugly(
        text("a b y", A, B, ["inf", *Y[1:]]),
        refused="--missing-values inf leaves",
        then=("--missing-values", "inf"),
        told_then=("1 row without a target",),
    ),
    "minus infinity": Ugly(text("a b y", ["-inf", *A[1:]], B, Y), refused="got -inf", then=("--missing-values", "inf")),
    "target of -999": Ugly(text("a b y", A, B, ["-999", *Y[1:]]), ("1 row",), ("--missing-values", "-999")),
    "fractions as classes": Ugly(
        text("a b y", A, B, Y),
        options=("--task", "classification"),
        refused="--task regression",
        then=("--task", "regression"),
    ),
    "classes as numbers": Ugly(
        text("a b y", A, B, LABELS),
        options=("--task", "regression"),
        refused="--task classification",
        then=("--task", "classification"),
        classes=True,
    ),
    "dates as the target": Ugly(text("a b y", A, B, DATES), refused="another column with --target", then=("--target", "b")),
    "empty target": Ugly(
        text("a b y", A, B, [""] * N), ("'y' has no values",), refused="with --target", then=("--target", "b")
    ),
    "identifiers as classes": Ugly(text("a y", A, [f"k{k}" for k in range(N)]), ("40 classes in 40 rows",), classes=True),
    "nothing varies": Ugly(text("a b y", [1] * N, [2] * N, Y), ("No column of X varies",), inputs=2),
    "telephone numbers": Ugly(
        text("p a y", [f"+49 30 {k * 7919:07d}" for k in range(N)], A, Y), ("as identifiers have",), inputs=1
    ),
    "hours of half a day": Ugly(
        text("at a y", [f"1/{k // 24 + 1}/2024 {k % 12 + 1}:30 {'AP'[k // 12 % 2]}M" for k in range(N)], A, Y),
        ("'1/2/2024 1:30 AM' is taken as 2024-01-02 01:30:00",),
        inputs=4,
    ),
    "whole numbers of 25 digits": Ugly(text("a b y", A, [10**25 + k * 10**23 for k in range(N)], Y), inputs=2),
    "commas in some columns": Ugly(
        text("a b y", A, commas(B), Y, mark=";"), ("Column 'b' is read as numbers with decimal commas",), inputs=2
    ),
    "points for thousands beside a comma": Ugly(
        text("a b y", A, [f"{k}.{k + 200}" for k in range(1, N + 1)], commas(Y, "{:.2f}"), mark=";"),
        ("'y' is read as numbers with decimal commas", "'b' is read as numbers with separators of thousands"),
        inputs=2,
    ),
    "target of thousands or decimals": Ugly(
        text("a b y", A, B, [f"{k},{k + 200}" for k in range(1, N + 1)]), ("--decimal , reads decimal commas",)
    ),
    "target decided": Ugly(
        text("a b y", A, B, [f"{k},{k + 200}" for k in range(1, N + 1)]), ("with decimal commas",), ("--decimal", ",")
    ),
    "apostrophes for thousands": Ugly(
        text("a b y", A, [f"{v:,.1f}".replace(",", "’") for v in 1e4 * B], Y), ("separators of thousands",), inputs=2
    ),
    "lakhs": Ugly(
        text("a b y", A, [f"{k},{k + 10},500" for k in range(1, N + 1)], Y), ("separators of thousands",), inputs=2
    ),
    "one unit": Ugly(text("a b y", A, each("{:.2f} kg".format, B), Y), ("with the unit 'kg'",), inputs=2),
    "two units": Ugly(
        text("a b y", A, [f"{v:.3f} {'km'[k % 2:]}" for k, v in enumerate(B)], Y), ("units ('km', 'm')",), inputs=1
    ),
    "target with a unit": Ugly(text("a b y", A, B, each("{:.3f} cm".format)), ("with the unit 'cm'",)),
    "marks at numbers": Ugly(
        text("a b y", [f"{v}*" if k % 5 == 0 else v for k, v in enumerate(A)], B, Y), ("which count as missing",), inputs=2
    ),
    "codes": Ugly(text("zip a y", [f"{k % 4 * 1031:05d}" for k in range(N)], A, Y), ("leading zeros",), inputs=5),
    "codes of rows": Ugly(text("id a y", [f"{k:05d}" for k in range(N)], A, Y), ("as identifiers have",), inputs=1),
    "German dates with short years": Ugly(
        text("day a y", [f"{d:%d.%m.%y}" for d in np.array(DATES).astype(object)], A, Y), inputs=4
    ),
    "months": Ugly(text("month a y", [str(d)[:7] for d in DATES], A, Y), inputs=4),
    "times without a leading zero": Ugly(text("at a y", [f"{k % 24}:{k:02d}:00" for k in range(N)], A, Y), inputs=4),
    "dates with a time zone": Ugly(
        text("at a y", [f"{d}T{k % 24:02d}:30:00+02:00" for k, d in enumerate(DATES)], A, Y), inputs=6
    ),
    "delimiter told to Excel": Ugly(b"sep=;\n" + text("a b y", A, B, Y, mark=";"), inputs=2),
    "blank and comment lines": Ugly(
        text("a b y", A, B, Y).replace(b"\n", b"\n# checked\n", 3).replace(b"\n", b"\n  \n", 1),
        ("4 blank or comment lines of 't.csv' are left out",),
        inputs=2,
    ),
    "commas at the end, many": Ugly(text("a b y", A, B, Y).replace(b"\n", b",,\n"), inputs=2),
    "two columns without a name": Ugly(
        text("a b c y", A, B, C, Y).replace(b"a,b,c,y", b",,c,y"), ("called 'column_2'", "without a name"), inputs=2
    ),
    "errors of Excel": Ugly(text("a b y", ["#DIV/0!", *A[1:]], B, Y), inputs=2),
    "workbook with a cover": Ugly(
        workbook(["a", "y"], zip(A.tolist(), Y.tolist(), strict=True), cover="Report"),
        ("of which 'data' is read; save another one as CSV",),
        file="t.xlsx",
        inputs=1,
    ),
    "workbook with a title": Ugly(
        workbook(["a", "y"], zip(A.tolist(), Y.tolist(), strict=True), "Report of May"),
        ("The first line of 't.xlsx' is left out",),
        file="t.xlsx",
        inputs=1,
    ),
    "workbook with empty columns": Ugly(
        workbook([None, "a", "y"], zip([None] * N, A.tolist(), Y.tolist(), strict=True)), file="t.xlsx", inputs=1
    ),
    "too large": Ugly(text("a b y", ["1e300", *A[1:]], B, Y), refused="got 1e+300", then=("--missing-values", "inf")),
    "target too large": Ugly(
        text("a b y", A, B, ["1e300", *Y[1:]]),
        refused="got 1e+300 in data row 1; --missing-values inf leaves",
        then=("--missing-values", "inf"),
        told_then=("1 row without a target",),
    ),
    "weights with a hole": Ugly(
        text("a w y", A, ["", *[1] * (N - 1)], Y), ("1 row without a target or a weight is left out",), ("--weight", "w"),
        inputs=1,
    ),
    "no such target": Ugly(
        text("a b Y", A, B, Y), options=("--target", "y"), refused="Did you mean 'Y'?", then=("--target", "Y")
    ),
    "dates of eight digits": Ugly(
        text("day a y", [str(d).replace("-", "") for d in DATES], A, Y), ("dates, 20231101 as 2023-11-01",), inputs=4
    ),
    "dates of eight digits in a workbook": Ugly(
        workbook(["day", "y"], [(int(str(d).replace("-", "")), y) for d, y in zip(DATES, Y.tolist(), strict=True)]),
        ("dates, 20231101 as",),
        file="t.xlsx",
        inputs=3,
    ),
    "dates with hours in digits": Ugly(
        text("at a y", [f"{str(d).replace('-', '')}{k % 24:02d}" for k, d in enumerate(DATES)], A, Y),
        ("dates, 2023110100 as 2023-11-01",),
        inputs=6,
    ),
    "months of six digits": Ugly(
        text("month a y", [str(d)[:7].replace("-", "") for d in DATES], A, Y), ("202311 as 2023-11-01",), inputs=4
    ),
    "dates of Excel": Ugly(
        text("date a y", [int(d.astype(int)) + 25_569 for d in DATES], A, Y), ("dates, 45231 as 2023-11-01",), inputs=4
    ),
    "seconds since 1970": Ugly(
        text("timestamp a y", [1_700_000_000 + 3_600 * k for k in range(N)], A, Y),
        ("1700000000 as 2023-11-14 22:13:20",),
        inputs=4,
    ),
    "five digits without a date": Ugly(text("price a y", 40_000 + 10 * np.arange(N), A, Y), inputs=2),
    "counters of six digits": Ugly(text("shop a y", 200_001 + np.arange(N) % 12, A, Y), inputs=2),
    "dates in two ways": Ugly(
        text("day a y", [f"{k % 12 + 1:02d}/{k % 11 + 1:02d}/2024" for k in range(N)], A, Y),
        ("'12/01/2024' is taken as 2024-12-01; write them as 2024-12-31",),
        inputs=2,
    ),
    "dates in different forms": Ugly(
        text("day a y", [str(d) if k % 2 else f"{d.item():%d.%m.%Y}" for k, d in enumerate(DATES)], A, Y),
        ("dates that are written in different ways",),
        inputs=1,
    ),
    "dates with weekdays": Ugly(text("day a y", [f"{d.item():%a, %d %b %Y}" for d in DATES], A, Y), inputs=4),
    "plus and minus": Ugly(text("sign a y", np.resize(["+", "-"], N), A, Y), inputs=2),
    "plus and minus as classes": Ugly(text("a b y", A, B, np.where(A > 0, "+", "-")), classes=True),
    "dash as a category": Ugly(
        text("grade a y", np.resize(["A", "A-", "-"], N), A, Y),
        ("'-' in 13 rows, which counts as missing; --missing-values '' takes it as a category",),
        inputs=2,
    ),
    "dash named as a category": Ugly(
        text("grade a y", np.resize(["A", "A-", "-"], N), A, Y), options=("--missing-values", ""), inputs=4
    ),
    "dash as a class": Ugly(
        text("a b y", A, B, np.resize(["u", "v", "-"], N)),
        ("left out; --missing-values '' takes '-' as a class",),
        classes=True,
    ),
    "dash named as a class": Ugly(
        text("a b y", A, B, np.resize(["u", "v", "-"], N)), options=("--missing-values", ""), classes=True
    ),
    "Namibia": Ugly(text("country a y", np.resize(["DE", "NA", "US"], N), A, Y), ("'NA' in 13 rows",), inputs=2),
    "categories in two cases": Ugly(
        text("flag a y", np.resize(["Y", "y", "N"], N), A, Y), ("differ in case alone, 'Y' and 'y'",), inputs=4
    ),
    "classes with a blank": Ugly(
        text("a b y", A, B, np.resize(["yes", "yes ", "no"], N)), ("classes 'yes' and 'yes '",), classes=True
    ),
    "numbers of rows": Ugly(
        text("PassengerId a y", range(1, N + 1), A, Y), ("numbers the rows; --drop PassengerId leaves it out",), inputs=2
    ),
    "index of pandas": Ugly(
        text("i a y", range(N), A, Y).replace(b"i,", b"Unnamed: 0,", 1), ("--drop 'Unnamed: 0' leaves it out",), inputs=2
    ),
    "copy of the target": Ugly(text("a copy y", A, Y, Y), ("'copy' equals the target",), inputs=2),
    "copy of the target left out": Ugly(text("a copy y", A, Y, Y), options=("--drop", "copy"), inputs=1),
    "name of the target twice": Ugly(text("a y y", A, Y, Y), ("called 'y_2'", "--drop y_2"), inputs=2),
    "exponents with decimal commas": Ugly(
        text("a b y", commas(A, "{:.3e}"), B, Y, mark=";"), ("with decimal commas",), inputs=2
    ),
    "target in another case": Ugly(
        text("a PRICE", A, Y), options=("--target", "price"), refused="Did you mean 'PRICE'?", then=("--target", "PRICE")
    ),
    "two codes of zeros": Ugly(text("zip a y", np.resize(["01067", "", "80331"], N), A, Y), ("leading zeros",), inputs=2),
}  # fmt: skip
