"""Tests of the demonstration package."""
