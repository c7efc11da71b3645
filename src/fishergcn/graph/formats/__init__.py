"""The file formats of graphs: NumPy archives and text tables."""
