"""Tracing: functions on arrays become graphs of UOps."""
