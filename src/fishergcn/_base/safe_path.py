"""Nothing is run that lies in the working folder: on import, what would look there for code is told not to.

``python -m`` puts the working folder first on the path of imports, where the first library that wants ``random`` would
find one that lies beside someone's data. Numba reads ``.numba_config.yaml`` there, which can name a folder of compiled
code. Imported before everything else; for the same reason it imports only what Python itself has loaded by then.
"""

import os
import sys

_NUMBA = ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES")  # empty by default; the environment wins over the file


def _started_as_module() -> bool:
    """Say whether this is ``python -m fishergcn...``, at the moment when ``-m`` looks for its module."""
    words = sys.orig_argv
    named = any(
        option[:1] == "-" and option.endswith("m") and name.partition(".")[0] == "fishergcn"
        for option, name in zip(words, words[1:], strict=False)  # noqa: RUF007, itertools is not loaded yet
    )
    return named and sys.argv[:1] == ["-m"] and not getattr(sys.flags, "safe_path", False)


def _leave_working_folder() -> None:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if _started_as_module() and sys.path and sys.path[0] != package:
        del sys.path[0]
    for name in _NUMBA:
        os.environ.setdefault(name, "")


_leave_working_folder()
