"""Write the notebooks of the gallery, executed: python docs/tools/notebooks.py"""

from __future__ import annotations

import os
import tempfile

import nbformat
from nbclient import NotebookClient

import gallery


def executed(example: gallery.Example) -> nbformat.NotebookNode:
    """The notebook of an example with its outputs. What the example saves goes to a folder that is deleted."""
    notebook = nbformat.reads(gallery.notebook(example), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day, different in every run
    notebook.metadata.pop("language_info", None)
    return notebook


if __name__ == "__main__":
    os.environ.pop("MPLBACKEND", None)  # pictures belong into the notebook
    gallery.NOTEBOOKS.mkdir(exist_ok=True)
    for example in gallery.examples():
        if example.name in gallery.WITH_NOTEBOOK:
            path = gallery.NOTEBOOKS / f"{example.name}.ipynb"
            nbformat.write(executed(example), path)
            print(f"wrote {path.relative_to(gallery.ROOT)}")
