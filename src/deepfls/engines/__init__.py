"""Hand-over of a fit or a prediction to a cluster.

May import every folder but ``cli``.
"""
