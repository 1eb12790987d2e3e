"""deepfls: Type-1 and Interval Type-2 fuzzy logic systems learned from data with PyTorch."""

__version__ = "0.1.0"

__all__ = ["__version__"]
