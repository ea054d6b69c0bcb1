"""`make bench`: what the product costs, measured beside what it stands on, as ratios and without thresholds."""
