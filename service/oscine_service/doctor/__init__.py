"""Whether this machine can run the service as it is set, and how to mend what cannot."""
