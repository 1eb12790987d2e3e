"""Trained systems in other languages and tools: C for microcontrollers, ONNX, FuzzyLite's FLL, MATLAB's .fis.

Everything is made from a :class:`deepfls.inspection.plain.PlainSystem`, the system in the units of the data. The text of C,
FLL and .fis files is in ``templates/``. May import every folder up to ``inspection``.
"""

from deepfls.export.fuzzy_tools import FisFileError, read_fis

__all__ = ["FisFileError", "read_fis"]
