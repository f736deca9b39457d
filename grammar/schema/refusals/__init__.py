"""Schemas that are refused as wholes, whatever their keywords say one by one."""
