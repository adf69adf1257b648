"""How evenly a hundred telephone calls over RTP are sent."""
