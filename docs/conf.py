"""Settings of the documentation."""

from fishergcn import __version__

project = "FisherGCN"
author = "The FisherGCN developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# Sphinx takes the words of a type like "ndarray, shape (n, k)" for names, and finds several objects called "shape".
suppress_warnings = ["ref.python"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "FisherGCN"
html_static_path = ["_static"]
