"""Judged queries to figures: what a search finds of what it should, and whether a change made it worse."""
