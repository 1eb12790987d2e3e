"""The command ``deepfls``: one file per command.

torch, scikit-learn and pyarrow are imported inside functions: ``deepfls --help`` answers at once. May import every folder.
"""
