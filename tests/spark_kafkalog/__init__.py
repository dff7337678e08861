"""Tests of the Spark source and sink. Those of a whole query are here, and those of a part in its folder."""
