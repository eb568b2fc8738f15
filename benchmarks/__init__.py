"""Benchmarks of tinyfn beside its peers: `python -m benchmarks --help`."""
