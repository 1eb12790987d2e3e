"""The commands of ``deepfls``, one file each.

Nothing here imports torch, scikit-learn or pyarrow before a command needs them: ``deepfls --help`` answers at once.
"""
