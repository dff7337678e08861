"""Requests of single clients, and what they ask for."""
