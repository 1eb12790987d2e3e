"""The compiled twin of ``functional`` and ``nn`` on the CPU. The only folder that imports Numba.

May import ``_checks``, ``_files`` and ``functional``.
"""
