"""Speech for a whole list of texts, offline: what to say, saying it many at a time, and what has been said already."""
