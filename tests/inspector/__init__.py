"""Tests of the inspector. (A package, so that the fixtures of package scope end with it.)"""
