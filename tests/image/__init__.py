"""`make e2e-image`: the image is built, run as Lambda runs it, and deployed to a local AWS. Needs Docker; not in CI."""
