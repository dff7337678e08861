"""Tests of loads into directories and HDFS."""
