"""What must happen before any library is imported; imported first, it acts at once.

Nothing is run that lies in the working folder. ``python -m`` puts that folder first on the path of imports, where the
first library that wants ``random`` would find one that lies beside someone's data. Numba reads ``.numba_config.yaml``
there, which can name a folder of compiled code.

Libraries abort, without a sentence, where the working folder is gone or where they may not start threads.

Only modules that are part of the interpreter, or loaded when it starts, are imported here.
"""

import _thread
import os
import sys
import time

_NUMBA = ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES")  # empty by default; the environment wins over the file
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def _started_as_module() -> bool:
    """Say whether this is ``python -m fishergcn...``, at the moment when ``-m`` looks for its module."""
    words = sys.orig_argv
    return sys.argv[:1] == ["-m"] and any(
        option[:1] == "-" and option.endswith("m") and name.partition(".")[0] == "fishergcn"
        for option, name in zip(words, words[1:], strict=False)  # noqa: RUF007, itertools is not loaded yet
    )


def _is_command() -> bool:
    return _started_as_module() or os.path.basename(sys.argv[0] if sys.argv else "").startswith("fishergcn")


def _check_there() -> None:
    try:
        os.getcwd()
    except OSError as error:
        sentence = "the working folder was removed; change to another one"
        if not _is_command():
            raise FileNotFoundError(sentence) from error
        sys.stderr.write(f"fishergcn: error: {sentence}.\n")
        raise SystemExit(2) from None


def _fill_closed() -> None:
    """Open what was closed of the three standard streams of a command, or the next file would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one


def _leave_path() -> None:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    unsafe = _started_as_module() and not getattr(sys.flags, "safe_path", False)
    if unsafe and sys.path and sys.path[0] != package:
        del sys.path[0]
    for name in _NUMBA:
        os.environ.setdefault(name, "")


def _writable(folder: str) -> bool:
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.access(folder, os.W_OK | os.X_OK)


def _have_place_for_compiled_code() -> None:
    """Have Numba keep compiled code in a folder of this process where it may write to none of its usual ones.

    That is the case of a user without a home, for whom someone else installed the package. The folder has a new name
    and is this user's alone: what others could have put there would be run.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.name == "nt" or os.environ["NUMBA_CACHE_DIR"] or any(map(_writable, (f"{package}/_kernels", usual))):
        return
    import atexit
    import shutil
    import tempfile

    folder = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="fishergcn-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _can_start(count: int) -> bool:
    """Return whether this number of threads can be started, by starting them."""
    gate, before = _thread.allocate_lock(), _thread._count()

    def wait() -> None:
        with gate:
            pass

    with gate:
        try:
            for _ in range(count):
                _thread.start_new_thread(wait, ())
            possible = True
        except RuntimeError:
            possible = False
    while _thread._count() > before:
        time.sleep(0.0001)
    return possible


def _spare_threads() -> None:
    """Have the libraries work with one thread each, in a command that may not start as many as they would."""
    if _is_command() and not _can_start(2 * (os.cpu_count() or 1)):
        for name in _THREADS:
            os.environ[name] = "1"


#: When the command began, but for the start of Python; None in other programs.
STARTED = time.monotonic() if _is_command() else None
_check_there()
if _is_command():
    _fill_closed()
_leave_path()
_have_place_for_compiled_code()
_spare_threads()
