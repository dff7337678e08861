"""Secured clusters, and the secrets among a query's options."""
