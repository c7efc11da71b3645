"""The version of the package, in one place."""

#: As in the name of the distribution.
__version__ = "0.3.0.dev0"
