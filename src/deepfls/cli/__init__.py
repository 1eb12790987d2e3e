"""The commands train, predict, evaluate, reproduce and demo.

Nothing here imports torch, scikit-learn or pyarrow before a command needs them: ``deepfls --help`` answers at once.
"""
