"""Measurements of speed and memory, one question to a file; ``deepfls bench`` asks them all, :mod:`questions` lists them.

Every number that is judged is a ratio, a count or a limit of the issue it answers. Ratios are taken within one run, the
competitors in turn, from the fastest of many short windows: what another process takes from the machine then hits none of
them, or all.
"""
