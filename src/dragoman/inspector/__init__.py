"""A model at work as a record: graph, numbers, search and what if, for a page or a program."""

from dragoman.inspector.conventions import CONVENTIONS, differences
from dragoman.inspector.inspecting import inspect
from dragoman.inspector.offline import offline_page
from dragoman.inspector.record import Inspection, schema

__all__ = ["CONVENTIONS", "Inspection", "differences", "inspect", "offline_page", "schema"]
