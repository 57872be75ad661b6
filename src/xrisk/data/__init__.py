"""Data: rows however they are stored, products with all of them, and the threads that full passes run on."""
