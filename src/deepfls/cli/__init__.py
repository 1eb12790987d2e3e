"""The command line: ``deepfls train | predict | evaluate``. One file per command, on shared helpers.

Nothing here imports torch, scikit-learn or pyarrow before a command needs them: ``deepfls --help`` answers at once.
"""
