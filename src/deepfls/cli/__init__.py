"""The command ``deepfls``: a file for each command, or for a few of one kind.

torch, scikit-learn and pyarrow are imported inside functions: ``deepfls --help`` answers at once. May import every folder.
"""
