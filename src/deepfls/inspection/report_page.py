"""The page: a template, a style sheet and plain JavaScript put into one file that needs nothing else.

A content security policy names the hashes of the one script and the one style sheet, so that nothing else in the file can
run or load, whatever a name contains. Names reach the page as JSON and as escaped text, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from deepfls import __version__
from deepfls._checks import check_targets_have_rows
from deepfls._files import write_whole
from deepfls.estimators.base import FLSEstimator
from deepfls.inspection.plain import PlainSystem
from deepfls.inspection.report_data import payload_of
from deepfls.inspection.rules_text import system_line

# In the order in which they use each other.
_SCRIPTS = ("inference.js", "dom.js", "inputs.js", "outputs.js", "rules.js", "response.js", "records.js", "app.js")


def write_report(
    estimator: FLSEstimator, path: str | os.PathLike[str], X: Any = None, y: Any = None, *, title: str | None = None
) -> Path:
    """Write the page of a fitted estimator; :meth:`FLSEstimator.to_report` has the parameters."""
    target = Path(path)
    # A lone half of a surrogate pair, which JSON can carry into a name, has no place in UTF-8.
    write_whole(target, report_html(estimator, X, y, title=title).encode("utf-8", "xmlcharrefreplace"))
    return target


def report_html(estimator: FLSEstimator, X: Any = None, y: Any = None, *, title: str | None = None) -> str:
    """The page of a fitted estimator as text."""
    from jinja2 import Environment
    from markupsafe import Markup

    check_targets_have_rows(X, y)
    content = json.dumps(payload_of(estimator, X, y), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Inside a script element only "</script" and "<!--" matter, but no bracket at all is easier to be sure of.
    for character in "<>&":
        content = content.replace(character, f"\\u{ord(character):04x}")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_read, _SCRIPTS)) + "})();\n"
    style = _read("page.css")
    s = PlainSystem.of(estimator)
    template = Environment(autoescape=True, keep_trailing_newline=True).from_string(_read("page.html"))
    return template.render(
        title=" and ".join(s.output_names[:3]) if title is None and s.classes is None else title or "Classes",
        subtitle=system_line(s),
        version=__version__,
        interval=s.kind == "it2",
        payload=Markup(content),  # escaped above
        script=Markup(script),  # our own file
        style=Markup(style),  # our own file
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _read(name: str) -> str:
    text = resources.files("deepfls.inspection").joinpath("page_files", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
