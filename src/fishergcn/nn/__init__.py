"""Neural networks on graphs: sparse products with the right gradients, and layers built on them."""
