"""What MkDocs calls while it builds the site: pages from elsewhere in the repository, the gallery, formulas as MathML."""

from __future__ import annotations

import html
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pymdownx.arithmatex import arithmatex_fenced_format

sys.path.insert(0, str(Path(__file__).parent))
import gallery

ROOT = Path(__file__).parents[2]
SEARCH_SCRIPT = "https://unpkg.com/iframe-worker/shim"
# Pages that lie outside docs/, by their place on the site.
PAGES = {
    "RESULTS.md": "RESULTS.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "benchmarks.md": "benchmarks/README.md",
}

# Pages of the API: title, what the names are for, and the modules whose public names they show.
API = {
    "estimators": (
        "Estimators",
        "Estimators in the manner of scikit-learn; `load` opens a saved model of either kind.",
        ["deepfls"],
    ),
    "nn": ("Torch modules", "Fuzzy systems and their parts as torch modules with constrained parameters.", ["deepfls.nn"]),
    "functional": (
        "Formulas",
        "Pure functions of tensors, Karnik-Mendel type reduction among them.",
        ["deepfls.functional"],
    ),
    "inspection": ("Inspection", "Rules, explanations, simplification, plots, the report page.", ["deepfls.inspection"]),
    "export": (
        "Export",
        "Reading MATLAB's `.fis` files. Writing is a method of the estimators: `to_c`, `to_onnx`, `to_fll`, `to_fis`.",
        ["deepfls.export"],
    ),
    "data": (
        "Data",
        "Named data sets, and tables that need not fit into memory.",
        ["deepfls.data.datasets", "deepfls.data.sources"],
    ),
    "training": ("Training", "The training loop on its own, for systems outside the estimators.", ["deepfls.training"]),
    "metrics": ("Metrics", "Measures of intervals, and what scikit-learn lacks.", ["deepfls.metrics"]),
    "engines": ("Clusters", "Fits and predictions on a Ray cluster.", ["deepfls.engines.ray"]),
    "kernels": ("Kernels", "Compiled code on the CPU, and the switch that turns it off.", ["deepfls.kernels"]),
}
# Of a module without `__all__`, the names that users need, where it has others.
NAMES = {"deepfls.data.sources": ["ParquetSource"]}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make ```math a formula, and list the examples in the navigation."""
    math = {"name": "math", "class": "arithmatex", "format": arithmatex_fenced_format(which="generic")}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [math]
    pages = [{example.title: f"gallery/{example.name}.md"} for example in gallery.examples()]
    nav: list[Any] = config.nav or []
    api = ["api/index.md", *({title: f"api/{name}.md"} for name, (title, _, _) in API.items())]
    made = {"Gallery": ["gallery/index.md", *pages], "API": api}
    config.nav = [{name: made.get(name, below) for name, below in item.items()} for item in nav]
    return config


def public_names(module: str) -> list[str]:
    """The names of a module that its page shows: classes, functions, constants."""
    found = importlib.import_module(module)
    names = NAMES.get(module) or getattr(found, "__all__", None)
    if names is None:
        names = [
            name for name, value in vars(found).items() if getattr(value, "__module__", "") == module and name[0] != "_"
        ]
    names = [name for name in names if name[0] != "_"]
    return sorted(names, key=lambda name: (_rank(getattr(found, name)), name.lower()))


def _rank(value: object) -> int:
    return 0 if inspect.isclass(value) else 1 if inspect.isfunction(value) else 2


def _entry(module: str, name: str) -> str:
    """The place of a name on its page. Of a class, the documented methods and properties that this package defines."""
    value = getattr(importlib.import_module(module), name)
    members = []
    for base in inspect.getmro(value) if inspect.isclass(value) else ():
        if base.__module__.startswith("deepfls"):
            found = [key for key, part in vars(base).items() if inspect.getdoc(part) and _is_method(part) and key[0] != "_"]
            members += [key for key in found if key not in members]
    shown = f"members: {members}" if members else "members: false\n      inherited_members: false"
    return f"::: {_home(module, name)}.{name}\n    options:\n      {shown}\n"


def _home(module: str, name: str) -> str:
    """Where the reader of the sources finds a name: two folders import theirs when asked for, which it does not see."""
    lazy = module in ("deepfls.functional", "deepfls.kernels")
    return str(getattr(importlib.import_module(module), name).__module__) if lazy else module


def _is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, (classmethod, staticmethod, property))


def api_pages() -> dict[str, str]:
    """The pages of the API by their place on the site, in Markdown."""
    pages = {}
    listed = []
    for place, (title, text, modules) in API.items():
        names = [(module, name) for module in modules for name in public_names(module)]
        entries = (_entry(module, name) for module, name in names)
        pages[f"api/{place}.md"] = f"# {title}\n\n{text}\n\n" + "\n".join(entries)
        links = ", ".join(f"[`{name}`][{_home(module, name)}.{name}]" for module, name in names)
        listed.append(f"| [{title}]({place}.md) | {text} | {links} |")
    head = "# API\n\nEvery public name, from the docstrings, with its source.\n\n| page | what | names |\n|---|---|---|\n"
    return {"api/index.md": head + "\n".join(listed) + "\n", **pages}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere and the gallery, whose scripts run now."""
    for place, path in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text(encoding="utf-8")))
    for place, content in api_pages().items():
        files.append(File.generated(config, place, content=content))
    done = [(example, gallery.outcome(example, gallery.OUTCOMES)) for example in gallery.examples()]
    files.append(File.generated(config, "gallery/index.md", content=gallery.index_page(done)))
    for example, result in done:
        place = f"gallery/{example.name}"
        files.append(File.generated(config, f"{place}.md", content=gallery.page(example, result)))
        files.append(
            File.generated(config, f"gallery/{gallery.picture_name(example, result)}", abs_src_path=str(result.picture))
        )
        files.append(File.generated(config, f"{place}.py", abs_src_path=str(example.path)))
        if example.name in gallery.WITH_NOTEBOOK:
            notebook = gallery.NOTEBOOKS / f"{example.name}.ipynb"
            files.append(File.generated(config, f"{place}.ipynb", abs_src_path=str(notebook)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files of the repository become links between pages of the site. Some pages need their full width."""
    if page.file.src_uri.startswith(("gallery/", "coming_from/", "api/index")):
        page.meta["hide"] = ["toc"]
    markdown = re.sub(r"\]\((?:\.\./)?benchmarks/README\.md", "](benchmarks.md", markdown)
    markdown = re.sub(r"\[([^]]+)\]\(\.github/[^)]*\)", r"`\1`", markdown)
    markdown = re.sub(r"\[([\w./]+\.md)\]\(", lambda found: f"[{_title(found.group(1))}](", markdown)
    markdown = re.sub(r"^- \* ", r"- \\* ", markdown, flags=re.MULTILINE)  # a footnote in a list, not a list in it
    if page.file.src_uri in PAGES:
        return re.sub(r"\]\((?:\.\./)?docs/", "](", markdown)
    return re.sub(r"\]\(\.\./([A-Z]+\.md)", r"](\1", markdown)


def _title(path: str) -> str:
    """The heading of the page that a file becomes: links in the repository name files, links on the site name pages."""
    places = [ROOT / path, ROOT / "docs" / path, ROOT / "docs" / path.split("docs/")[-1], ROOT / Path(path).name]
    file = next((place for place in places if place.is_file()), None)
    heading = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE) if file else None
    return heading.group(1) if heading else path


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw by themselves: no script, no fonts. Choices of a parameter in quotes."""
    content = re.sub(r"\(<code>\((.*?)\)</code>", _choices, content)
    content = re.sub(r"\(<code>(\w+(?: - \w+)+)</code>", _choices, content)
    content = re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', _formula, content, flags=re.DOTALL)
    return re.sub(r":(?:class|data|func|meth|mod):<code>~?", "<code>", content)  # roles of Sphinx in docstrings


def _choices(found: re.Match[str]) -> str:
    """The reader of docstrings takes ``{"a-b", "c"}`` for names and differences of names."""
    words = re.sub(r"<[^>]*>", "", found.group(1)).replace(" - ", "-").split(", ")
    quoted = [f"&#34;{word}&#34;" if re.fullmatch(r"[A-Za-z]\S*", word) else word for word in words]
    return f"(<code>{', '.join(quoted)}</code>"


def _formula(found: re.Match[str]) -> str:
    display = "block" if found.group(1) == "div" else "inline"
    return convert(html.unescape(found.group(2)).strip(), display=display)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The theme would load a script for searching pages on disk from the network; the site has its own."""
    return output.replace(SEARCH_SCRIPT, "../" * page.file.dest_uri.count("/") + "assets/worker.js")


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for the page that a server shows for an unknown address."""
    return output_content.replace(SEARCH_SCRIPT, "/assets/worker.js")
