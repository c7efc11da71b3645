"""What graphs are read from, written to and converted to: files, and the graphs of other libraries."""
