"""Settings of the documentation. It is built and read without a network: all that a page loads is in the site."""

from fishergcn import __version__

project = "FisherGCN"
author = "The FisherGCN developers"
release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
# Sphinx takes the words of a type like "ndarray, shape (n, k)" for names, and finds several objects called "shape".
suppress_warnings = ["ref.python"]
exclude_patterns = ["_build"]

# The notebooks of the gallery are run by every build; one that fails makes the build fail.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# MathJax as its npm package has it (mathjax 3.2.2, es5/tex-svg.js): one file, fonts included. Its menu would load more.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}

html_theme = "furo"
html_title = "FisherGCN"
html_static_path = ["_static"]
html_copy_source = False
html_show_copyright = False
