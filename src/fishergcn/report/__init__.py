"""The report of a study: a page to look at, tables and figures."""

from __future__ import annotations

from fishergcn.report._write import write_report

__all__ = ["write_report"]
