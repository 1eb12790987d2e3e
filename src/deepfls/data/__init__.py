"""Tables and sources of rows: columns, layout, scaling, Parquet files in windows, named data sets.

Files are CSV or Parquet, in memory or streamed; the user's cache keeps downloads and Parquet copies of CSV files.
May import _checks, _files, functional, kernels, nn and metrics.
"""
