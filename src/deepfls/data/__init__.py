"""Tables and sources: columns, categories, missing values, scaling, batches of Parquet files, named data sets.

Files are CSV or Parquet, in memory or streamed; the user's cache keeps downloads and Parquet copies of CSV files.
May import _checks, _files, functional, kernels, nn and metrics.
"""
