"""What every package may use: checks of arguments, array types, files, optional imports."""
