"""Settings of the documentation. It is built and read without a network: pages load only files of the site."""

import logging
import os
import sysconfig
import tempfile
from pathlib import Path

from fishergcn import __version__

# Notebooks run the same everywhere: with the command of this environment, activated or not, tables of the same width,
# and without the user's IPython settings. Notices leave out the line of a temporary file.
_SETTINGS = r"""
c.IPKernelApp.log_level = "ERROR"
c.IPKernelApp.exec_lines = [
    "import warnings",
    "warnings.formatwarning = lambda message, category, *_, **__: f'{category.__name__}: {message}\\n'",
    "warnings.filterwarnings('ignore', 'IProgress not found')",
]
"""
_ipython = tempfile.TemporaryDirectory()  # removed when the build ends
(Path(_ipython.name) / "profile_default").mkdir()
(Path(_ipython.name) / "profile_default" / "ipython_kernel_config.py").write_text(_SETTINGS, encoding="utf-8")
os.environ |= {
    "IPYTHONDIR": _ipython.name,
    "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
    "COLUMNS": "100",
}
logging.getLogger("traitlets").setLevel(logging.WARNING)  # it reports every notebook run

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

# Notebooks run in a temporary folder; those that show committed scores find them by this.
os.environ["FISHERGCN_RESULTS"] = str(Path(__file__).resolve().parent.parent / "benchmarks" / "results")

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
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
