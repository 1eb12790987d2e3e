"""Data on its way in: scaling, tables, named sets."""
