"""Trained systems in the languages of other places: C for microcontrollers, ONNX, FuzzyLite's FLL, MATLAB's .fis.

Everything is made from a :class:`deepfls.inspection.plain.PlainSystem`, the system in the units of the data.
"""

from deepfls.export.fis_reader import FisFileError, read_fis

__all__ = ["FisFileError", "read_fis"]
