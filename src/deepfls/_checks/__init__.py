"""Argument checks that more than one folder needs. A check that one folder needs is in that folder.

Checks are called in public functions. A check of Python values, shapes, dtypes and devices may run in a training step; a
check that reads the values of a tensor has ``values`` in its name and may not.
"""
