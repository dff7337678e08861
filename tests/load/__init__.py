"""Loads into directories and HDFS."""
