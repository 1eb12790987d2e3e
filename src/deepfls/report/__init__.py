"""A page to explore a trained system with: one self-contained HTML file."""

from deepfls.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
