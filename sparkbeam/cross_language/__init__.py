"""Beam's cross-language transforms as transforms that Spark itself runs."""
