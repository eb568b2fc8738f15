"""Lowering: a graph of arrays becomes loop nests, and these become machine code."""
