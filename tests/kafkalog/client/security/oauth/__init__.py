"""Tests of logins by OAuth 2."""
