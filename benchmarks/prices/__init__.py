"""What derivatives and batches cost: rows of functions, their times beside the same function's value, a written rule, and JAX."""
